"""Does a result agree with what was published? Every number and every claim gets a verdict, and a reason."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ..evaluation.intervals import student_quantile
from .measure import Difference, Found, Scores
from .recipe import Claim, Number, Recipe, runs_of
from .result import RecipeResult


class Verdict(str, Enum):
    REPRODUCED = "reproduced"
    ORDERING = "ordering reproduced"
    NOT = "not reproduced"
    UNDECIDED = "undecided"
    NOT_RUN = "not run here"
    INVALID = "published number not a valid target"
    UNPUBLISHED = "nothing published"


@dataclass(frozen=True)
class Measured:
    """Our number with its 95 % interval over seeds and clients."""

    mean: float
    interval: tuple[float, float] | None
    unit: str

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
    found = Found(recipe, result)
    return [_judge_number(found, number) for number in recipe.numbers]


def judge_claims(recipe: Recipe, result: RecipeResult | None) -> list[ClaimVerdict]:
    found = Found(recipe, result)
    return [_judge_claim(found, claim) for claim in recipe.claims]


def is_published_protocol(recipe: Recipe, result: RecipeResult) -> bool:
    """Only such a result can reproduce a number; any other can show the order of numbers at most."""
    return recipe.protocol == "published" and result.size == "full"


def measured(scores: Scores | None) -> Measured | None:
    return Measured(scores.value, scores.interval, scores.unit) if scores else None


def _judge_number(found: Found, number: Number) -> NumberVerdict:
    recipe, result = found.recipe, found.result
    ours = measured(found.scores(number))
    if number.published is None:
        verdict = Verdict.UNPUBLISHED if ours else Verdict.NOT_RUN
        return NumberVerdict(number, ours, verdict, "" if ours else _not_run(found, [number]))
    if number.invalid:
        return NumberVerdict(number, ours, Verdict.INVALID, number.invalid)
    if result is None or ours is None:
        return NumberVerdict(number, None, Verdict.NOT_RUN, _not_run(found, [number]))
    if is_published_protocol(recipe, result):
        off, allowed = abs(ours.mean - number.published), _allowed(number, ours)
        said = f"{off:.2f} points from the published number, where chance explains {allowed:.2f}; "
        if off <= allowed:
            return NumberVerdict(number, ours, Verdict.REPRODUCED, said.removesuffix("; "))
    else:
        said = ""
    verdict, reason = _order(found, number)
    return NumberVerdict(number, ours, verdict, said + reason)


def _allowed(number: Number, ours: Measured) -> float:
    """How far chance can move the difference to the published number: both half widths, added in squares."""
    own = (ours.interval[1] - ours.interval[0]) / 2 if ours.interval else 0.0
    return math.hypot(own, _half_width(number))


def _half_width(number: Number) -> float:
    """Half the width of the published number's 95 % interval, as far as its spread is known."""
    if number.spread is None or number.spread_of is None or number.spread_of < 2:
        return 0.0
    return student_quantile(number.spread_of - 1) * number.spread / math.sqrt(number.spread_of)


def _order(found: Found, number: Number) -> tuple[Verdict, str]:
    """Whether the number is surely above and below the same others as in the paper, where those differ clearly."""
    against, unsure, compared = [], [], 0
    for other in found.recipe.numbers:
        published = _published_difference(number, other)
        if published is None:
            continue
        above = published > 0
        difference = found.difference(number, other) if above else found.difference(other, number)
        if difference is None:
            continue
        compared += 1
        if difference.surely_below(0.0):
            against.append(f"surely {'below' if above else 'above'} {other.name}")
        elif not difference.surely_above(0.0):
            unsure.append(f"not surely {'above' if above else 'below'} {other.name}")
    if not compared:
        return Verdict.UNDECIDED, "nothing to compare its place with"
    said = "; ".join([*against, *unsure]) or f"in the published place among {compared + 1} numbers"
    return Verdict.NOT if against else Verdict.UNDECIDED if unsure else Verdict.ORDERING, said


def _published_difference(number: Number, other: Number) -> float | None:
    """Of numbers of one kind that the paper gives as different, beyond its own spread; None of others."""
    if number.published is None or other.published is None or other.invalid or other.name == number.name:
        return None
    if (number.statistic, number.minus is None) != (other.statistic, other.minus is None):
        return None
    difference = number.published - other.published
    return difference if abs(difference) > math.hypot(_half_width(number), _half_width(other)) else None


def _judge_claim(found: Found, claim: Claim) -> ClaimVerdict:
    recipe, result = found.recipe, found.result
    if claim.untested:
        return ClaimVerdict(claim, Verdict.NOT_RUN, claim.untested)
    pairs = [(recipe.number(a), recipe.number(b)) for a, b in zip(claim.higher, claim.lower, strict=True)]
    known = [(pair, each) for pair in pairs if (each := found.difference(*pair)) is not None]
    if result is None or len(known) < len(pairs):
        return ClaimVerdict(claim, Verdict.NOT_RUN, _not_run(found, [each for pair in pairs for each in pair]))
    said = "; ".join(f"{a.name} minus {b.name}: {each.text}" for (a, b), each in known)
    bounds = [claim.by - claim.within * scores.value for _, b in pairs if (scores := found.scores(b))]
    published = is_published_protocol(recipe, result)
    return ClaimVerdict(claim, _claim_verdict([each for _, each in known], bounds, published), said)


def _claim_verdict(differences: Sequence[Difference], bounds: Sequence[float], published: bool) -> Verdict:
    if published and all(each.surely_above(least) for each, least in zip(differences, bounds, strict=True)):
        return Verdict.REPRODUCED
    # A claim of no great loss is about its bound; of another protocol, how large a gain is says nothing.
    compared = [(each, min(least, 0.0)) for each, least in zip(differences, bounds, strict=True)]
    if all(each.surely_above(least) for each, least in compared):
        return Verdict.ORDERING
    return Verdict.NOT if any(each.surely_below(least) for each, least in compared) else Verdict.UNDECIDED


def _not_run(found: Found, numbers: Sequence[Number]) -> str:
    recipe, result = found.recipe, found.result
    wanted = dict.fromkeys(run for number in numbers for run in runs_of(number))
    if result is not None and (missing := [run for run in wanted if run not in result.runs]):
        return f"The stored result has no run {', '.join(missing)}."
    if result is not None and wanted:
        return "The stored runs lack what this is measured by."
    return recipe.obstacle or f"No result is stored. It takes about {recipe.hours:g} hours on two cores."
