"""What was learned? A text by hand, whose figures and verdicts are filled in from stored results."""

import re
from pathlib import Path

from ..errors import PartitaError, unknown
from .judge import judge_claims
from .measure import Found
from .places import FILES, recipe_named
from .recipe import Number, Recipe
from .result import read_results

TEXT = FILES / "learned.md"
SHARES = {"points", "% of clients", "rounds"}
FIGURE = re.compile(r"\{\{(?P<recipe>\w+) (?P<size>full|small): (?P<name>[^{}]+?)(?: minus (?P<other>[^{}]+?))?\}\}")


def learned(text: str, results: Path) -> str:
    """The page. `{{recipe size: number}}` becomes our number with its interval, and `number minus number` the
    difference of two; `baseline NAME` is that of a baseline, and `claim ID` the verdict on a claim."""
    known: dict[tuple[str, str], Found] = {}

    def figure(given: re.Match[str]) -> str:
        key = (given["recipe"], given["size"])
        if key not in known:
            recipe = recipe_named(given["recipe"])
            stored = (result for result in read_results(results, recipe) if result.size == given["size"])
            known[key] = Found(recipe, next(stored, None))
        told = _told(known[key], given["name"], given["other"], given[0])
        if told is None:
            raise PartitaError(f"{given[0]}: no stored result has it.")
        return told

    return FIGURE.sub(figure, text)


def _told(found: Found, name: str, other: str | None, where: str) -> str | None:
    kind, _, rest = name.partition(" ")
    if kind == "claim":
        judged = {each.claim.id: each.verdict.value for each in judge_claims(found.recipe, found.result)}
        return judged.get(rest) if found.result else None
    if other is not None:
        difference = found.difference(_number(found.recipe, name, where), _number(found.recipe, other, where))
        return difference.text if difference else None
    scores = found.baseline(rest) if kind == "baseline" else found.scores(_number(found.recipe, name, where))
    if scores is None:
        return None
    # Errors are small numbers.
    digits = 1 if scores.unit in SHARES else 3
    ends = f" ({scores.interval[0]:.{digits}f} to {scores.interval[1]:.{digits}f})" if scores.interval else ""
    return f"{scores.value:.{digits}f}{ends}"


def _number(recipe: Recipe, name: str, where: str) -> Number:
    names = [each.name for each in recipe.numbers]
    if name not in names:
        raise PartitaError(f"{where}: {unknown('number', name, names)}")
    return recipe.number(name)
