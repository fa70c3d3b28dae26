"""The coordinate-wise trimmed mean. Yin et al., 2018, https://arxiv.org/abs/1803.01498"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from ..core.network import Network
from ..core.optimizers import SGD, Optimizer
from ..core.server import Aggregation, Update
from ..core.signatures import Range, configurable
from ..tensors import Tensors
from ._entries import by_entry


@configurable
def trimmed_mean(
    *, fraction: Annotated[float, Range(0, 0.5, high_open=True)] = 0.1, optimizer: Optimizer = SGD(1.0)
) -> Aggregation:
    """The mean of every entry over the clients that sent it, without this fraction of the largest and the smallest.

    Of m senders, floor(fraction * m) are left out at each end; with the default fraction, that needs at least 10
    senders. Every client counts the same.
    """
    return Aggregation(TrimmedMean(fraction), optimizer=optimizer, sees_single_models=True)


@dataclass(frozen=True)
class TrimmedMean:
    """The mean of the changes between the two ends."""

    fraction: float

    def __call__(self, shared: Tensors, updates: Sequence[Update], network: Network) -> Tensors:
        return by_entry(shared, updates, self._between)

    def _between(self, changes: Tensor, counts: Tensor) -> Tensor:
        # A fraction such as 0.29 * 100 must not become 28 by a rounding error.
        trimmed = (self.fraction * counts + 1e-9).floor()
        place = torch.arange(len(changes), dtype=torch.float64)[:, None]
        inside = (place >= trimmed) & (place < counts - trimmed)
        return changes.masked_fill(~inside, 0.0).sum(0) / (counts - 2 * trimmed)
