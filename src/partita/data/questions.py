"""Can the data answer the question? Notes name what they cannot answer, with clients and counts."""

from collections.abc import Sequence

import numpy as np
import torch

from ..formatting import amount
from .federation import Federation

MOST_NAMES = 5
FEW = 5
"""With fewer training samples, a client lacks most classes by chance."""


def remarks(data: Federation) -> list[str]:
    """Notes on the division for a reader of results: clients made by a split, dropped clients, duplicates."""
    origin = data.origin.get("split")
    name = origin.get("name") if isinstance(origin, dict) else None
    noted = data.origin.get("notes")
    notes = [str(note) for note in noted] if isinstance(noted, list | tuple) else []
    if data.pool is not None and data.pool.clients is None and name not in ("as_given", "manifest"):
        notes.insert(
            0, f"{data.name} does not name the client of each sample: {name} made {amount(len(data), 'client')}"
        )
    return notes


def unanswerable(data: Federation, tested: Sequence[int]) -> list[str]:
    """Notes on what no method can learn or show on these data; `tested` are the clients that are tested."""
    notes = []
    if len(data) - len(data.newcomers) == 1:
        notes.append("Only one client trains: it has no other client to learn with, so every method trains alone.")
    if _opaque(data):
        notes.append("The fourth channel of all images is 255, like opacity in RGBA. Leave it out: inputs[..., :3].")
    if data.kind != "classification":
        return notes
    if data.classes == 1:
        notes.append("There is one class: there is nothing to tell apart, and a score says nothing.")
    return notes + _absent(data) + _never_trained(data, tested)


def _opaque(data: Federation) -> bool:
    stored = data.samples.take(slice(0, 1000)).stored
    return (
        stored.dtype == torch.uint8 and stored.dim() == 4 and stored.shape[1] == 4 and bool((stored[:, 3] == 255).all())
    )


def _absent(data: Federation) -> list[str]:
    """Classes for which the network has an output, but no client a sample."""
    count = len(np.unique(data.samples.targets.numpy())) if not data.label_sets else data.classes
    if count >= data.classes:
        return []
    return [
        f"{data.classes - count} of {data.classes} classes occur at no client. Are the labels numbered as is meant?"
    ]


def _never_trained(data: Federation, tested: Sequence[int]) -> list[str]:
    """Clients whose test samples are mostly of classes that they have no training sample of."""
    targets = data.samples.targets.numpy()
    found, unseen, total = [], 0, 0
    for client in tested:
        if client in data.newcomers:
            continue
        roles = data.roles[client]
        train, test = (targets[roles[role].numpy()] for role in ("train", "test"))
        missing = int((~np.isin(test, train)).sum())
        if len(train) >= FEW and 2 * missing > len(test):
            found.append(data.name_of(client))
            unseen, total = unseen + missing, total + len(test)
    if not found:
        return []
    names = ", ".join(found[:MOST_NAMES]) + (", ..." if len(found) > MOST_NAMES else "")
    return [
        f"{amount(len(found), 'client')} ({names}) with test samples mostly of classes without a training sample: "
        f"{unseen} of {total}. No personal model can know these. Divide train and test so that classes are in both."
    ]
