"""Which settings are best on validation data? A small grid of rates, which grows where its best is at an end."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

RATES = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
FIRST = (0.03, 0.1, 0.3)
"""The rates that are tried in any case."""
QUICK = 0.1
"""The rate of baselines that are not tuned; of equally good rates, the one nearest to it is taken."""
FINETUNING = ((1, 0.1), (1, 1.0), (5, 0.1), (5, 1.0))
"""Epochs of fine-tuning, and its rate as a part of that of the training."""
QUICK_FINETUNING = (5, 1.0)


@dataclass(frozen=True)
class Tried:
    """Settings, and their mean score over clients on validation data; None if training diverged."""

    lr: float
    score: float | None
    epochs: int | None = None
    """The number of epochs of fine-tuning."""


def tried_rates(score: Callable[[float], float | None], better: Callable[[float, float], float]) -> list[Tried]:
    """The first rates, and further ones as long as the best is at an end of those tried.

    `better` says how much better one score is than another.
    """
    found: dict[float, float | None] = {}
    wanted: Sequence[float] = FIRST
    while wanted:
        found |= {rate: score(rate) for rate in wanted}
        at = RATES.index(best([Tried(*each) for each in found.items()], better).lr)
        wanted = [rate for rate in RATES[max(at - 1, 0) : at + 2] if rate not in found]
    return [Tried(rate, found[rate]) for rate in sorted(found)]


def scaled(rate: float, factor: float) -> float:
    """The product, rounded so that a tenth of 0.1 is exactly 0.01.

    >>> scaled(0.1, 0.1)
    0.01
    """
    return float(f"{rate * factor:.12g}")


def best(tried: Iterable[Tried], better: Callable[[float, float], float]) -> Tried:
    """The best score; of equal ones the rate nearest to the usual, then the fewest epochs."""
    return min(
        tried,
        key=lambda each: (
            math.inf if each.score is None else -better(each.score, 0.0),
            round(abs(math.log(each.lr / QUICK)), 9),
            each.epochs or 0,
            each.lr,
        ),
    )


def as_dicts(tried: Iterable[Tried]) -> list[dict[str, float | int | None]]:
    return [{"lr": each.lr, "epochs": each.epochs, "score": each.score} for each in tried]


def from_dicts(values: Iterable[Mapping[str, float | int | None]]) -> list[Tried]:
    return [
        Tried(float(each["lr"] or 0), each["score"], None if each["epochs"] is None else int(each["epochs"]))
        for each in values
    ]
