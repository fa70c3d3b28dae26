"""What do representations look like? A map of test samples in the plane, by t-SNE.

As in Oh et al., 2022 (FedBABU), figure 15.
"""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from ...errors import PartitaError
from ...randomness import generator
from .. import representation
from .subject import Subject


def embedding(subjects: Iterable[Subject], each: int, batch: int = 512) -> dict[str, Any]:
    """At most `each` test samples of every client, as what its own body, before fine-tuning, makes of them."""
    features: list[Tensor] = []
    labels: list[int] = []
    clients: list[int] = []
    for subject in subjects:
        client, test = subject.client, subject.test
        order = torch.randperm(len(test), generator=generator(0, "embedded samples", client.id))
        chosen = test.take(order[:each].sort().values)
        if not len(chosen):
            continue
        features.append(representation.body_features(client.task, subject.weights(subject.before), chosen, batch))
        labels += (chosen.targets if subject.classes is None else subject.classes[chosen.targets]).tolist()
        clients += [client.id] * len(chosen)
    if not features:
        raise PartitaError("No client has test samples.")
    if len({found.shape[1] for found in features}) > 1:
        raise PartitaError("The clients' bodies differ in the number of features, which have no common map.")
    x, y = representation.embedding(torch.cat(features)).T.tolist()
    return {"x": x, "y": y, "label": labels, "client": clients}
