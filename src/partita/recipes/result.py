"""What is kept of a recipe that was run? One small JSON file: scores by seed and client, settings and machine."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import PartitaError
from ..evaluation.variants import Variant
from ..parsing import parse_json
from .recipe import Recipe, Size

FORMAT = 2
DIGITS = 5
"""The decimals of stored scores."""
SIZES: tuple[Size, ...] = ("full", "small")


@dataclass(frozen=True)
class Course:
    """Test scores after every evaluated round."""

    rounds: Sequence[int]
    test: Mapping[str, Sequence[Sequence[float]]]
    """The score of each client after each round, by seed."""
    validation: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    """The mean over clients after each round, by seed."""


@dataclass(frozen=True)
class RunResult:
    """What one run of a recipe found, under all its seeds."""

    settings: Mapping[str, str]
    rounds: int
    metric: str
    variant: Variant
    fingerprint: str
    """The fingerprint of the data and their division."""
    seconds: float
    """All rounds of all seeds."""
    clients: Sequence[str]
    samples: Sequence[int]
    """Test samples of each client."""
    sizes: Sequence[int]
    """Training samples of each client; where a run does not have them, those held out, which grow with them."""
    scores: Mapping[str, Mapping[str, Sequence[float | None]]]
    """By name and seed, for each client. Names are those of a variant, for the model after the last round, with
    `@validation` or `@test` for the round that is best on these data, and of analyses: `without_head.cosine`,
    `finetuning.head.1` (after one epoch), `training.used` (on training samples), `cka.fc` (to other clients' layer).
    None where nothing was measured."""
    course: Course | None = None
    """None where it would be large."""
    validated: float | None = None
    """The mean validation score after the last round, over clients and seeds."""
    choice: str = ""
    """How the settings of a baseline were chosen."""
    date: str = ""
    commit: str = ""
    """The commit of the program that made the run."""

    @property
    def seeds(self) -> list[str]:
        return list(self.scores[self.variant])


@dataclass(frozen=True)
class RecipeResult:
    recipe: str
    size: Size
    command: str
    environment: Mapping[str, Any]
    """Versions, system and cores."""
    runs: Mapping[str, RunResult]
    baselines: Mapping[str, RunResult] = field(default_factory=dict)
    """Floor, local, global, and global with fine-tuning, on the clients of the first run."""


def result_path(folder: Path, recipe: str, size: Size) -> Path:
    return folder / (f"{recipe}.json" if size == "full" else f"{recipe}-{size}.json")


def write_result(folder: Path, result: RecipeResult) -> Path:
    path = result_path(folder, result.recipe, result.size)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": FORMAT, **asdict(result)}, indent=1, ensure_ascii=False)
    # A list of numbers or names stands in one line.
    text = re.sub(r"\[[^\[\]{}]*\]", lambda found: re.sub(r"\s*\n\s*", " ", found[0]), text)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def read_result(folder: Path, recipe: str, size: Size) -> RecipeResult | None:
    """What is stored of a recipe in a size: its own runs."""
    path = result_path(folder, recipe, size)
    return _read(path) if path.is_file() else None


def read_results(folder: Path, recipe: Recipe) -> Iterator[RecipeResult]:
    """The stored results of a recipe, the full one first, with the runs that it borrows from others."""
    for size in SIZES:
        own = read_result(folder, recipe.name, size)
        runs, lender = dict(own.runs) if own else {}, own
        for name, path in recipe.borrowed_of(size).items():
            other, _, run = path.partition("/")
            lent = read_result(folder, other, size)
            if lent and run in lent.runs:
                runs[name], lender = lent.runs[run], lender or lent
        if lender and runs:
            yield replace(lender, recipe=recipe.name, runs=runs)


def results_or_none(folder: Path, recipe: Recipe) -> Sequence[RecipeResult | None]:
    """The same, or one None where nothing is stored, so that this can be shown too."""
    return list(read_results(folder, recipe)) or [None]


def _read(path: Path) -> RecipeResult:
    try:
        given = parse_json(path.read_text(encoding="utf-8"))
        if given.pop("format") != FORMAT:
            raise ValueError("it is of another format")
        for part in ("runs", "baselines"):
            given[part] = {name: _run(each) for name, each in given[part].items()}
        return RecipeResult(**given)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as problem:
        raise PartitaError(f"Cannot read the result {path}: {problem}. Make it again: partita recipe run") from problem


def _run(given: Mapping[str, Any]) -> RunResult:
    course = Course(**given["course"]) if given.get("course") else None
    run = RunResult(**{**given, "course": course})
    lengths = {len(run.samples), len(run.sizes), *map(len, _rows(run))}
    if lengths != {len(run.clients)} or run.variant not in run.scores:
        raise ValueError("its scores do not fit its clients")
    if any(set(by_seed) != set(run.seeds) for by_seed in run.scores.values()):
        raise ValueError("its scores do not fit its seeds")
    return run


def _rows(run: RunResult) -> Iterator[Sequence[float | None]]:
    yield from (values for by_seed in run.scores.values() for values in by_seed.values())
    if run.course:
        yield from (values for by_round in run.course.test.values() for values in by_round)
