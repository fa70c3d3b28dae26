"""How does a client choose between its personal model and the global one? By its validation loss, with shrinkage."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import PartitaError

if TYPE_CHECKING:
    from torch import Tensor

    from ..core.objectives import Problem

PERSONAL_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Weights of the personal model in a mixture; the rest is the global model's."""
PRIOR = 4.0
"""With this many validation samples, a client's own loss weighs as much as the loss of all clients."""

EQUAL = 1e-6
"""Losses that differ by no more than this count as equal: mixtures of equal models differ in their last bits."""


def mixture(personal: "Tensor", shared: "Tensor", weight: float, kind: "Problem") -> "Tensor":
    """Outputs of the mixture: log-probabilities of the mixed class probabilities, or for regression mixed numbers."""
    if weight == 0.0:
        return shared
    if weight == 1.0:
        return personal
    if kind == "regression":
        return weight * personal + (1 - weight) * shared
    return (personal.log_softmax(-1) + math.log(weight)).logaddexp(shared.log_softmax(-1) + math.log(1 - weight))


def choose(losses: Sequence[Sequence[float]], counts: Sequence[int], prior: float = PRIOR) -> list[int]:
    """For each client the index of its weight.

    `losses` are sums of validation losses, by client and weight; `counts` are the clients' numbers of validation
    samples. A client takes the weight with the smallest (n_i * loss_i + prior * loss) / (n_i + prior), where loss_i is
    the mean over its own n_i samples and loss the mean over all clients' samples; of equal ones the smallest weight. A
    client without validation data, or with a loss that is not finite, takes what is best for all others.
    """
    if prior < 0:
        raise PartitaError(f"prior is {prior}, but must be at least 0.")
    nothing = ([0.0] * len(losses[0]) if losses else [], 0)
    known = [
        (row, count) if all(map(math.isfinite, row)) else nothing for row, count in zip(losses, counts, strict=True)
    ]
    total = sum(count for _, count in known)
    if not total:
        raise PartitaError("No client has validation data to choose by. Set data.validation above 0.")
    population = [sum(column) / total for column in zip(*(row for row, _ in known), strict=True)]
    # With neither samples of its own nor a prior, a client would have no loss to compare.
    pulls = [prior if count else max(prior, 1.0) for _, count in known]
    shrunk = [
        [(own + pull * common) / (count + pull) for own, common in zip(row, population, strict=True)]
        for (row, count), pull in zip(known, pulls, strict=True)
    ]
    return [next(place for place, loss in enumerate(row) if loss <= min(row) + EQUAL) for row in shrunk]
