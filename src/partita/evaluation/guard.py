"""When is a personal model not to be trusted? Per client a mixture with the global one, chosen on validation data."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from ..core.objectives import Problem
from ..errors import PartitaError

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Of the personal model; the rest is the global one's."""
PRIOR = 4.0
"""So many validation samples of a client's own weigh as much as those of all; see docs/guard.md."""

EQUAL = 1e-6
"""Losses that differ by no more are equal: two models that agree differ in the last bits of their mixture."""


def mixture(personal: Tensor, shared: Tensor, weight: float, kind: Problem) -> Tensor:
    """Outputs that stand for a mixture of answers: of class probabilities (as logarithms), or of numbers."""
    if weight == 0.0:
        return shared
    if weight == 1.0:
        return personal
    if kind == "regression":
        return weight * personal + (1 - weight) * shared
    return torch.logaddexp(
        F.log_softmax(personal, -1) + math.log(weight), F.log_softmax(shared, -1) + math.log(1 - weight)
    )


def choose(losses: Sequence[Sequence[float]], counts: Sequence[int], prior: float = PRIOR) -> list[int]:
    """For each client the place of its weight, from sums of validation losses at every weight, and numbers of samples.

    That with the smallest (n_i * loss_i + prior * loss) / (n_i + prior), where loss_i is the mean over the client's own
    n_i samples and loss that over all clients' samples; the smallest weight among equals. A client without validation
    data takes what is best for all.
    """
    if prior < 0:
        raise PartitaError(f"A prior of {prior} samples: it must be at least 0.")
    total = sum(counts)
    if not total:
        raise PartitaError("No client has validation data to choose by. Set data.validation above 0.")
    population = [sum(column) / total for column in zip(*losses, strict=True)]
    # Without own samples and without a prior there would be nothing to go by.
    pulls = [prior if count else max(prior, 1.0) for count in counts]
    shrunk = [
        [(own + pull * common) / (count + pull) for own, common in zip(row, population, strict=True)]
        for row, count, pull in zip(losses, counts, pulls, strict=True)
    ]
    return [next(place for place, loss in enumerate(row) if loss <= min(row) + EQUAL) for row in shrunk]
