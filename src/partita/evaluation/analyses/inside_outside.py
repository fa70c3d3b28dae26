"""What does a personal model make of classes that its client never trained on?

As in Oh et al., 2022 (FedBABU), appendix J: accuracy on classes in the client's training data and on all others.
"""

from collections.abc import Iterable
from typing import Any

import torch

from ...core.samples import Samples
from ...errors import PartitaError
from ...tensors import Tensors
from ..scores import Record
from .subject import Subject, told


def inside_outside(subjects: Iterable[Subject], common: Samples, batch: int = 512) -> dict[str, Any]:
    """Every client's model on the same test samples, told apart by whether the client trained on their class.

    Of the model that is meant to be used, and as `before_local` of that before fine-tuning, where the method does so.
    A client that trained on all classes has no samples outside, and counts inside alone.
    """
    clients: list[int] = []
    used: dict[str, list[Record]] = {"inside": [], "outside": []}
    before: dict[str, list[Record]] = {"inside": [], "outside": []}
    for subject in subjects:
        if subject.classes is not None:
            raise PartitaError("Every client numbers its own classes, and cannot answer with another.")
        clients.append(subject.client.id)
        for side, record in judged(subject, subject.used, common, batch).items():
            used[side].append(record)
        if subject.algorithm.finetune:
            for side, record in judged(subject, subject.before, common, batch).items():
                before[side].append(record)
    earlier = {side: told(records) for side, records in before.items()}
    return {
        "clients": clients,
        "samples": len(common),
        **{side: told(records) for side, records in used.items()},
        "before_local": earlier if any(earlier.values()) else None,
    }


def judged(subject: Subject, tensors: Tensors, common: Samples, batch: int) -> dict[str, Record]:
    """One model on the samples of the client's training classes and on the others; there may be none of either."""
    inside = torch.isin(common.targets, torch.unique(subject.client.train.targets))
    return {
        side: subject.record(tensors, common.take(rows.nonzero().flatten()), batch)
        for side, rows in (("inside", inside), ("outside", ~inside))
    }
