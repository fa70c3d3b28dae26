"""How are numbers distributed? Their quartiles, and a density by Gaussian kernels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import PartitaError
from .scores import quantile

POINTS = 100


@dataclass(frozen=True)
class Density:
    """The density of numbers at points from the least to the largest, and their quartiles."""

    low: float
    lower_quartile: float
    median: float
    upper_quartile: float
    high: float
    at: list[float]
    density: list[float]


def density(values: Sequence[float], points: int = POINTS) -> Density:
    """A kernel density estimate.

    The kernels are Gaussian, with the width of Scott's rule: the sample's standard deviation divided by the fifth root
    of its size. Equal numbers have no density: there is one point, of density 1.
    """
    if not values:
        raise PartitaError("A density of no numbers: at least one is needed.")
    ordered = sorted(values)
    low, lower, median, upper, high = (quantile(ordered, percent) for percent in (0, 25, 50, 75, 100))
    if low == high:
        return Density(low, lower, median, upper, high, [low], [1.0])
    width = np.std(ordered, ddof=1) * len(ordered) ** -0.2
    at = np.linspace(low, high, points)
    kernels = np.exp(-(((at[:, None] - np.asarray(ordered)) / width) ** 2) / 2)
    found = kernels.mean(1) / (width * math.sqrt(2 * math.pi))
    return Density(low, lower, median, upper, high, at.tolist(), found.tolist())
