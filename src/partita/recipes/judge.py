"""Does a result agree with what was published? Every number and every claim gets a verdict, and a reason."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ..evaluation.intervals import student_quantile
from ..evaluation.resampling import Grid, grid, interval, middle, resampled
from .recipe import Claim, Number, Recipe
from .result import RecipeResult, RunResult


class Verdict(str, Enum):
    REPRODUCED = "reproduced"
    ORDERING = "ordering reproduced"
    NOT = "not reproduced"
    NOT_RUN = "not run here"
    INVALID = "published number not a valid target"
    UNPUBLISHED = "nothing published"


@dataclass(frozen=True)
class Measured:
    """Our number, in per cent, with its 95 % interval over seeds and clients."""

    mean: float
    interval: tuple[float, float] | None
    seeds: int
    clients: int

    @property
    def text(self) -> str:
        return f"{self.mean:.2f}" + (f" ({self.interval[0]:.2f} to {self.interval[1]:.2f})" if self.interval else "")


@dataclass(frozen=True)
class NumberVerdict:
    number: Number
    ours: Measured | None
    verdict: Verdict
    reason: str


@dataclass(frozen=True)
class ClaimVerdict:
    claim: Claim
    verdict: Verdict
    reason: str


def judge_numbers(recipe: Recipe, result: RecipeResult | None) -> list[NumberVerdict]:
    return [_judge_number(recipe, result, number) for number in recipe.numbers]


def judge_claims(recipe: Recipe, result: RecipeResult | None) -> list[ClaimVerdict]:
    return [_judge_claim(recipe, result, claim) for claim in recipe.claims]


def is_published_protocol(recipe: Recipe, result: RecipeResult) -> bool:
    """Only such a result can reproduce a number; any other can show the order of numbers at most."""
    return recipe.protocol == "published" and result.size == "full"


def measured(run: RunResult, number: Number) -> Measured | None:
    """The number in a run's scores, in per cent; None where the run has no such model."""
    found = _grid(run, number)
    if found is None:
        return None
    ends = interval(found)
    seeds, clients = found.sums.shape
    return Measured(found.mean, ends, seeds, clients)


def difference(result: RecipeResult, higher: Number, lower: Number) -> tuple[float, tuple[float, float] | None] | None:
    """`higher` minus `lower` in points: in pairs on the same clients and seeds, else of independent samples."""
    runs = [result.runs.get(each.run or "") for each in (higher, lower)]
    one, other = runs
    if one is None or other is None:
        return None
    a, b = _grid(one, higher), _grid(other, lower)
    if a is None or b is None:
        return None
    same = (one.fingerprint, one.clients, one.seeds) == (other.fingerprint, other.clients, other.seeds)
    if same and higher.average == lower.average:
        paired = Grid(a.sums - b.sums, a.weights)
        return paired.mean, interval(paired)
    apart = resampled(a, seed=0), resampled(b, seed=1)
    least = min(map(len, apart))
    return a.mean - b.mean, middle(apart[0][:least] - apart[1][:least])


def _grid(run: RunResult, number: Number) -> Grid | None:
    pairs = run.pairs(number.variant)
    if pairs is None:
        return None
    percent = {pair: 100 * score for pair, score in pairs.items()}
    return grid(percent, run.weights if number.average == "micro" else None)


def _judge_number(recipe: Recipe, result: RecipeResult | None, number: Number) -> NumberVerdict:
    run = result.runs.get(number.run or "") if result else None
    ours = measured(run, number) if run else None
    if number.published is None:
        verdict = Verdict.UNPUBLISHED if ours else Verdict.NOT_RUN
        return NumberVerdict(number, ours, verdict, "" if ours else _not_run(recipe, result))
    if number.invalid:
        return NumberVerdict(number, ours, Verdict.INVALID, number.invalid)
    if result is None or ours is None:
        return NumberVerdict(number, None, Verdict.NOT_RUN, _not_run(recipe, result))
    if is_published_protocol(recipe, result):
        off, allowed = abs(ours.mean - number.published), _allowed(number, ours)
        said = f"{off:.2f} points from the published number, where chance explains {allowed:.2f}"
        if off <= allowed:
            return NumberVerdict(number, ours, Verdict.REPRODUCED, said)
    else:
        said = "another protocol than the published one: the order of numbers can be compared, the numbers cannot"
    ordered, reason = _order(recipe, result, number)
    return NumberVerdict(number, ours, Verdict.ORDERING if ordered else Verdict.NOT, f"{said}; {reason}")


def _allowed(number: Number, ours: Measured) -> float:
    """How far chance can move the difference to the published number: both half widths, added in squares."""
    own = (ours.interval[1] - ours.interval[0]) / 2 if ours.interval else 0.0
    theirs = 0.0
    if number.spread is not None and number.spread_of is not None and number.spread_of > 1:
        theirs = student_quantile(number.spread_of - 1) * number.spread / math.sqrt(number.spread_of)
    return math.hypot(own, theirs)


def _order(recipe: Recipe, result: RecipeResult, number: Number) -> tuple[bool, str]:
    """Whether the number is surely above and below the same others as in the paper."""
    compared, wrong = 0, []
    for other in recipe.numbers:
        if other.published is None or other.invalid or other.published == number.published:
            continue
        assert number.published is not None
        above = number.published > other.published
        found = difference(result, number, other) if above else difference(result, other, number)
        if found is None:
            continue
        compared += 1
        if not _surely_above(found[1], 0.0):
            wrong.append(f"not surely {'above' if above else 'below'} {other.name}")
    if not compared:
        return False, "nothing to compare its place with"
    return not wrong, "; ".join(wrong) or f"in the published place among {compared + 1} numbers"


def _judge_claim(recipe: Recipe, result: RecipeResult | None, claim: Claim) -> ClaimVerdict:
    if not claim.higher:
        return ClaimVerdict(claim, Verdict.NOT_RUN, recipe.obstacle or "No stored number decides it yet.")
    names = [(recipe.number(a), recipe.number(b)) for a, b in zip(claim.higher, claim.lower, strict=True)]
    found = [difference(result, *pair) if result else None for pair in names]
    known = [(pair, each) for pair, each in zip(names, found, strict=True) if each is not None]
    if result is None or len(known) < len(names):
        return ClaimVerdict(claim, Verdict.NOT_RUN, _not_run(recipe, result))
    said = "; ".join(f"{a.name} minus {b.name}: {_points(mean, ends)}" for (a, b), (mean, ends) in known)
    intervals = [ends for _, (_, ends) in known]
    if is_published_protocol(recipe, result) and _all_above(intervals, claim.by):
        return ClaimVerdict(claim, Verdict.REPRODUCED, said)
    return ClaimVerdict(claim, Verdict.ORDERING if _all_above(intervals, 0.0) else Verdict.NOT, said)


def _all_above(intervals: Sequence[tuple[float, float] | None], least: float) -> bool:
    return all(_surely_above(each, least) for each in intervals)


def _surely_above(ends: tuple[float, float] | None, least: float) -> bool:
    return ends is not None and ends[0] > least


def _points(mean: float, ends: tuple[float, float] | None) -> str:
    return f"{mean:+.2f} points" + (f" ({ends[0]:+.2f} to {ends[1]:+.2f})" if ends else "")


def _not_run(recipe: Recipe, result: RecipeResult | None) -> str:
    if result is not None and recipe.runs.keys() - result.runs.keys():
        return f"The stored result lacks a run that this needs. Go on with: {result.command}"
    return recipe.obstacle or f"No result is stored. It takes about {recipe.hours:g} hours on two cores."
