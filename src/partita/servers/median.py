"""The coordinate-wise median. Yin et al., 2018, https://arxiv.org/abs/1803.01498"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ..core.network import Network
from ..core.optimizers import SGD, Optimizer
from ..core.server import Aggregation, Update
from ..core.signatures import configurable
from ..tensors import Tensors
from ._entries import by_entry


@configurable
def median(*, optimizer: Optimizer = SGD(1.0)) -> Aggregation:
    """The median of every entry over the clients that sent it; every client counts the same.

    Fewer than half of an entry's senders cannot move it outside the range of the others, whatever they send.
    """
    return Aggregation(Median(), optimizer=optimizer, sees_single_models=True)


@dataclass(frozen=True)
class Median:
    """The middle change, or the mean of the two in the middle."""

    def __call__(self, shared: Tensors, updates: Sequence[Update], network: Network) -> Tensors:
        return by_entry(shared, updates, _middle)


def _middle(changes: Tensor, counts: Tensor) -> Tensor:
    low, high = (changes.gather(0, at[None])[0] for at in ((counts - 1) // 2, counts // 2))
    return (low + high) / 2
