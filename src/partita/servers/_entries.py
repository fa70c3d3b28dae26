"""How is a rule applied to each entry separately? To all clients' changes of that entry side by side."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..core.server import Update, sent_names
from ..tensors import Tensors

AT_ONCE = 1 << 20
"""The number of values that are processed together."""

Combine = Callable[[Tensor, Tensor], Tensor]
"""Combines changes in ascending order (clients x entries), given how many were sent, into one change for each entry.

What was not sent comes last, as infinity. Entries that no client sent are left out before.
"""


def by_entry(shared: Tensors, updates: Sequence[Update], combine: Combine) -> Tensors:
    """A change for every entry that any client sent, and 0 for all others."""
    found: Tensors = {}
    for name in sent_names(updates):
        sending = [update for update in updates if name in update.values]
        old, change = shared[name].reshape(-1), torch.zeros(shared[name].numel(), dtype=torch.float64)
        step = max(AT_ONCE // len(sending), 1)
        for part in (slice(at, at + step) for at in range(0, len(old), step)):
            changes = torch.stack([_change(update, name, old, part) for update in sending])
            counts = torch.stack([_sent(update, name, part, len(changes[0])) for update in sending]).sum(0)
            sent = counts > 0
            change[part][sent] = combine(changes[:, sent].sort(0).values, counts[sent])
        found[name] = change.view(shared[name].shape)
    return found


def _change(update: Update, name: str, old: Tensor, part: slice) -> Tensor:
    """A client's changes; infinity for entries that it did not send or that are nan."""
    change = old[part].double() - update.values[name].reshape(-1)[part]
    change = change.masked_fill(change.isnan(), torch.inf)
    return change if (mask := _mask(update, name)) is None else change.masked_fill(~mask[part], torch.inf)


def _sent(update: Update, name: str, part: slice, size: int) -> Tensor:
    return torch.ones(size, dtype=torch.bool) if (mask := _mask(update, name)) is None else mask[part]


def _mask(update: Update, name: str) -> Tensor | None:
    mask = (update.mask or {}).get(name)
    return None if mask is None else mask.reshape(-1)
