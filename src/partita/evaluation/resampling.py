"""How sure is a mean over seeds and clients? Seeds and clients are drawn again with replacement."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Pair = tuple[int, int]
"""A seed and a client."""
Numbers = npt.NDArray[np.float64]

RESAMPLES = 2000


@dataclass(frozen=True, eq=False)
class Grid:
    """Values as an array (seeds, clients), each times its weight; the weight of a missing one is 0."""

    sums: Numbers
    weights: Numbers

    @property
    def mean(self) -> float:
        return float(self.sums.sum() / self.weights.sum())

    @property
    def by_client(self) -> Numbers:
        means: Numbers = self.sums.sum(0) / self.weights.sum(0)
        return means

    @property
    def client_spread(self) -> float:
        """The standard deviation over clients who count alike: its mean over seeds."""
        each = [row[known > 0].std() for row, known in zip(self.sums, self.weights, strict=True)]
        return float(np.mean(each))

    @property
    def by_seed(self) -> Numbers:
        means: Numbers = self.sums.sum(1) / self.weights.sum(1)
        return means


def grid(values: Mapping[Pair, float], weights: Mapping[int, float] | None = None) -> Grid:
    """Values by (seed, client), in which clients count alike or by the given weights."""
    seeds, clients = (sorted({pair[part] for pair in values}) for part in (0, 1))
    row, column = ({key: place for place, key in enumerate(keys)} for keys in (seeds, clients))
    sums, known = (np.zeros((len(seeds), len(clients))) for _ in range(2))
    for (seed, client), value in values.items():
        weight = 1.0 if weights is None else weights[client]
        sums[row[seed], column[client]] = value * weight
        known[row[seed], column[client]] = weight
    return Grid(sums, known)


def resampled(grid: Grid, *, resamples: int = RESAMPLES, seed: int = 0) -> Numbers:
    """The means of samples in which a pair counts as often as its seed was drawn times its client."""
    draw = np.random.default_rng(seed)
    of_seeds, of_clients = (draw.multinomial(size, np.full(size, 1 / size), resamples) for size in grid.sums.shape)
    sums = ((of_seeds @ grid.sums) * of_clients).sum(1)
    weights = ((of_seeds @ grid.weights) * of_clients).sum(1)
    # Where pairs are missing, a draw may hit none at all.
    means: Numbers = sums[weights > 0] / weights[weights > 0]
    return means


def interval(
    grid: Grid, *, level: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[float, float] | None:
    """The middle `level` of the resampled means; None for a single pair."""
    if (grid.weights > 0).sum() == 1:
        return None
    return middle(resampled(grid, resamples=resamples, seed=seed), level)


def middle(means: Numbers, level: float = 0.95) -> tuple[float, float] | None:
    """The ends of the middle `level` of values; None if there are none."""
    if not len(means):
        return None
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
