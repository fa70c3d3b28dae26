"""The geometric median. Pillutla et al., 2022 (RFA), https://arxiv.org/abs/1912.13445"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from ..core.network import Network
from ..core.optimizers import SGD, Optimizer
from ..core.server import Aggregation, Update, Weights, pseudo_gradient, weight_of
from ..core.signatures import Positive, above, configurable
from ..tensors import Tensors, network_name


@configurable
def geometric_median(
    *,
    iterations: Positive = 3,
    smoothing: Annotated[float, above(0)] = 1e-6,
    weights: Weights = "samples",
    optimizer: Optimizer = SGD(1.0),
) -> Aggregation:
    """The change with the smallest weighted sum of distances to the clients' changes, by smoothed Weiszfeld steps.

    It starts from the mean. In every step a client counts with its weight divided by its distance (at least
    `smoothing`) from the result of the last step. The distance is over the entries that the client sent, without
    running statistics.
    """
    return Aggregation(GeometricMedian(iterations, smoothing, weights), optimizer=optimizer, sees_single_models=True)


@dataclass(frozen=True)
class GeometricMedian:
    iterations: int
    smoothing: float
    weights: Weights

    def __call__(self, shared: Tensors, updates: Sequence[Update], network: Network) -> Tensors:
        own = [weight_of(update, self.weights) for update in updates]
        # A client whose distance is not finite is ignored.
        apart = [_distance(shared, update, {}, network) for update in updates]
        counted = [(update, weight) for update, weight, d in zip(updates, own, apart, strict=True) if math.isfinite(d)]
        middle = _mean(shared, counted)
        for _ in range(self.iterations):
            distances = [_distance(shared, update, middle, network) for update, _ in counted]
            pulls = [(u, w / max(d, self.smoothing)) for (u, w), d in zip(counted, distances, strict=True)]
            middle = _mean(shared, pulls)
        return middle


def _mean(shared: Tensors, weighted: Sequence[tuple[Update, float]]) -> Tensors:
    return pseudo_gradient(shared, [replace(update, weight=weight) for update, weight in weighted], "uploaded")


def _distance(shared: Tensors, update: Update, change: Tensors, network: Network) -> float:
    """The distance between a client's change and another change, over the entries that the client sent."""
    square = 0.0
    for name, value in update.values.items():
        if network_name(name) not in network.buffers:
            apart = shared[name].double() - value - change.get(name, 0.0)
            mask = (update.mask or {}).get(name)
            square += float((apart if mask is None else apart[mask]).square().sum())
    return math.sqrt(square)
