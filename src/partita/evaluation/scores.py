"""How good are models? Scores of clients, and summaries over clients. Torch is not needed to read them."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

from ..errors import PartitaError
from .variants import Variant

if TYPE_CHECKING:
    from ..core.algorithm import Algorithm
    from ..core.objectives import Measures

Item = TypeVar("Item")
HeldOut = Literal["validation", "test"]
"""The roles of samples that are not trained on."""

QUANTILES = (10, 25, 50, 75, 90)
"""Percent of clients."""


@dataclass(frozen=True)
class Record:
    """Sums over the samples of one client and role, for one of its models after a round (counted from 1)."""

    round: int
    client: int
    variant: Variant
    role: HeldOut
    count: int
    correct: int | None
    """None for regression."""
    loss: float

    @property
    def score(self) -> float:
        """The accuracy, or for regression the root of the mean squared error."""
        return math.sqrt(self.loss / self.count) if self.correct is None else self.correct / self.count


@dataclass(frozen=True)
class Summary:
    """Scores of several clients: of all samples together (micro), and the mean and spread over clients (macro, std).

    The score is accuracy, or for regression the root of the mean squared error, of which less is better.
    """

    micro: float
    macro: float
    std: float
    """The population standard deviation over clients: 0 for one client."""
    worst_decile: float
    """The mean of the worst tenth of the clients, rounded down, at least of one."""
    clients: int
    """The number of clients with samples."""
    quantiles: Mapping[int, float]
    """Quantiles by percent, from small scores to large ones, with linear interpolation."""
    left_out: int = 0
    """The number of clients without samples in this role."""


def record_of(
    sums: "Measures", round: int, client: int, variant: Variant = "before_local", role: HeldOut = "test"
) -> Record:
    """A record of sums; the sums of no samples may be empty."""
    correct = int(sums["correct"]) if "correct" in sums else None
    return Record(round, client, variant, role, int(sums.get("count", 0)), correct, float(sums.get("loss", 0.0)))


def used_variant(algorithm: "Algorithm") -> Variant:
    """The variant that a method is meant to be used with."""
    return "after_finetune" if algorithm.finetune else "before_local"


def summarize(records: Iterable[Record], clients: Iterable[int] = ()) -> Summary:
    """Summarize the records of one variant, role and round. Clients without samples are left out and counted."""
    given: Sequence[Record] = list(records)
    chosen = [record for record in given if record.count]
    if not chosen:
        raise PartitaError("There is nothing to summarize: no client has samples in this role.")
    errors = any(record.correct is None for record in chosen)
    each = sorted(record.score for record in chosen)
    mean = sum(each) / len(each)
    worst = tenth(each[::-1] if errors else each)
    together = replace(
        chosen[0],
        count=sum(record.count for record in chosen),
        correct=None if errors else sum(record.correct or 0 for record in chosen),
        loss=sum(record.loss for record in chosen),
    )
    return Summary(
        micro=together.score,
        macro=mean,
        std=(sum((score - mean) ** 2 for score in each) / len(each)) ** 0.5,
        worst_decile=sum(worst) / len(worst),
        clients=len(each),
        quantiles={percent: quantile(each, percent) for percent in QUANTILES},
        left_out=len({*clients, *(record.client for record in given)} - {record.client for record in chosen}),
    )


def tenth(ordered: Sequence[Item]) -> Sequence[Item]:
    """The first tenth of the items, rounded down, at least one."""
    return ordered[: max(len(ordered) // 10, 1)]


def quantile(ordered: Sequence[float], percent: float) -> float:
    """The quantile of sorted numbers, with linear interpolation."""
    place = (len(ordered) - 1) * percent / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
