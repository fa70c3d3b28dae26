"""What is a recipe? A table or figure of a paper: the runs that make it, its published numbers and its claims."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from ..core.signatures import Positive, check_fields
from ..errors import PartitaError, unknown
from ..parsing import parse_toml

Paper = Literal["flayer", "fedbabu", "partial", "fedper", "partita"]
Protocol = Literal["published", "reduced"]
Size = Literal["full", "small"]
Average = Literal["micro", "macro"]
BaselineWork = Literal["tuned", "quick", "none"]
Statistic = Literal["mean", "spread", "hurt", "rounds"]
Among = Literal["all", "smaller", "larger"]
Drawing = Literal["curves", "numbers", "finetuning", "similarity", "gains", "sizes"]


@dataclass(frozen=True)
class Number:
    """One number of a table, and where we have it from: per cent, or errors as they are."""

    name: str
    run: str | tuple[str, ...] | None = None
    """The run, or of several the one that is best on validation data. None where no settings of ours make it."""
    score: str | None = None
    """Which scores of the run (`RunResult.scores`); None are those of the model that the method is meant to use."""
    minus: str | None = None
    """The name of a number that is subtracted, client by client."""
    statistic: Statistic = "mean"
    """The mean over clients; their standard deviation; the share that is below zero, in per cent; or the first
    evaluated round whose mean is within half a point of the best."""
    among: Among = "all"
    """All clients, or the half with fewer or with more samples."""
    average: Average = "macro"
    published: float | None = None
    spread: float | None = None
    """The published standard deviation."""
    spread_of: Positive | None = None
    """The number of clients or seeds that the spread is over."""
    where: str = ""
    invalid: str | None = None
    """The reason why the published number is no target."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, as differences of numbers that must be positive."""

    id: str
    statement: str
    higher: tuple[str, ...] = ()
    lower: tuple[str, ...] = ()
    """The first of `higher` is claimed to be above the first of `lower`, and so on."""
    by: float = 0.0
    """The least difference in points; if negative, the first may be below the second by no more than that."""
    within: float = 0.0
    """The share of the second by which the first may be below it."""
    untested: str | None = None
    """The reason why no numbers of this recipe decide it."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not re.fullmatch(r"[A-Z][0-9]{1,3}", self.id):
            raise PartitaError(f"Claim id {self.id!r}: it is a capital letter and a number, such as F1.")

    @property
    def order(self) -> tuple[str, int, str]:
        """Where it stands among claims: by letter, then by number."""
        return self.id[0], int(self.id[1:]), self.statement


@dataclass(frozen=True)
class Picture:
    """A figure that is drawn from stored results: of runs (curves, analyses) or of numbers."""

    name: str
    shows: str
    """The figure of the paper, or what is drawn."""
    drawing: Drawing
    of: tuple[str, ...]
    """Names of runs, or of numbers where `drawing` is numbers, gains or sizes."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Small:
    """The variant that fits a small machine."""

    minutes: float
    changed: str
    """What is smaller, in words."""
    seeds: Positive = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The settings that differ in single runs, by name."""
    leaves_out: tuple[str, ...] = ()
    """Runs that it does not make."""
    borrowed: Mapping[str, str] = field(default_factory=dict)
    """Runs of other recipes' small variants, in place of such runs, or beside the recipe's own."""
    analysed: Positive | None = None
    """How many clients analyses look at, at most."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Recipe:
    name: str
    title: str
    paper: Paper
    shows: str
    """The table or figure."""
    protocol: Protocol
    """Whether the full variant is the published protocol, on the published data."""
    hours: float
    """The hours of the full variant, estimated for two cores."""
    seeds: Positive = 1
    baselines: BaselineWork = "none"
    obstacle: str | None = None
    """The reason why it is not run here, and what it would take."""
    deviations: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What we think of our results."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The settings that each run adds to the common ones, by name."""
    borrowed: Mapping[str, str] = field(default_factory=dict)
    """Runs of other recipes, by our name for them: as `recipe/run`."""
    authors: Mapping[str, str] = field(default_factory=dict)
    """Runs of the authors' own code on the rows of a run here: `python -m benchmarks.authors` adds them to a result."""
    analyses: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Analyses that the numbers need, each with the runs it is made of."""
    numbers: tuple[Number, ...] = ()
    claims: tuple[Claim, ...] = ()
    pictures: tuple[Picture, ...] = ()
    small: Small | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def settings_of(self, run: str, size: Size = "full") -> dict[str, Any]:
        """The settings of a run, as an experiment file would hold them."""
        if run not in self.runs:
            raise PartitaError(unknown(f"run of {self.name}", run, self.runs))
        merged = merge(self.settings, self.runs[run])
        if size == "small" and self.small:
            merged = merge(merge(merged, self.small.settings), self.small.runs.get(run, {}))
        return merged

    def runs_of(self, size: Size) -> list[str]:
        """The recipe's own runs that a size has."""
        left_out = self.small.leaves_out if size == "small" and self.small else ()
        return [name for name in self.runs if name not in left_out]

    def borrowed_of(self, size: Size) -> dict[str, str]:
        """The runs of other recipes that a size has."""
        return {**self.borrowed, **(self.small.borrowed if size == "small" and self.small else {})}

    def seeds_of(self, size: Size) -> int:
        return self.small.seeds if size == "small" and self.small else self.seeds

    def number(self, name: str) -> Number:
        return next(each for each in self.numbers if each.name == name)


def merge(settings: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with others put into them, table by table. A table of another name replaces the whole table.

    >>> merge({"algorithm": {"name": "fedper", "blocks": 2}}, {"algorithm": {"epochs": 1}})
    {'algorithm': {'name': 'fedper', 'blocks': 2, 'epochs': 1}}
    >>> merge({"algorithm": {"name": "fedper", "blocks": 2}}, {"algorithm": {"name": "fedavg"}})
    {'algorithm': {'name': 'fedavg'}}
    """
    merged = dict(settings)
    for key, value in more.items():
        before = merged.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping) and _same_name(before, value):
            merged[key] = merge(before, value)
        else:
            merged[key] = value
    return merged


def _same_name(before: Mapping[str, Any], more: Mapping[str, Any]) -> bool:
    return "name" not in more or more["name"] == before.get("name")


def read_recipe(path: Path) -> Recipe:
    """A recipe file; whatever it says that is unknown, missing or contradictory is an error."""
    try:
        given = parse_toml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise PartitaError(f"Cannot read the recipe {path}: {problem}.") from problem
    where = str(path)
    parts = {key: _parts(kind, given.pop(key, []), f"{where}, {key}") for key, kind in PARTS.items()}
    small = _made(Small, given.pop("small"), f"{where}, small") if "small" in given else None
    recipe: Recipe = _made(Recipe, {**given, **parts, "name": path.stem, "small": small}, where)
    _check(recipe, where)
    return recipe


PARTS: Mapping[str, type[Any]] = {"numbers": Number, "claims": Claim, "pictures": Picture}


def _parts(kind: type[Any], given: object, where: str) -> tuple[Any, ...]:
    if not isinstance(given, list):
        raise PartitaError(f"{where}: {given!r} is not a list of tables.")
    return tuple(_made(kind, each, where) for each in given)


def _made(kind: type[Any], given: object, where: str) -> Any:
    if not isinstance(given, Mapping):
        raise PartitaError(f"{where}: {given!r} is not a table.")
    known = {each.name: each for each in fields(kind)}
    for key in given:
        if key not in known:
            raise PartitaError(f"{where}: {unknown('key', key, known)}")
    needed = (n for n, each in known.items() if each.default is MISSING and each.default_factory is MISSING)
    if missing := [name for name in needed if name not in given]:
        raise PartitaError(f"{where}: {', '.join(missing)} is missing.")
    try:
        return kind(**{key: _lists_as_tuples(key, value) for key, value in given.items()})
    except PartitaError as problem:
        raise PartitaError(f"{where}: {problem}") from problem


def _lists_as_tuples(key: str, value: Any) -> Any:
    """Lists of names; those in the settings of runs are as experiment files have them."""
    if key == "analyses" and isinstance(value, Mapping):
        return {name: _lists_as_tuples(name, each) for name, each in value.items()}
    return tuple(value) if isinstance(value, list) else value


def _check(recipe: Recipe, where: str) -> None:
    names = [each.name for each in recipe.numbers]
    runs = [*recipe.runs, *recipe.borrowed_of("small"), *recipe.authors]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise PartitaError(f"{where}: {', '.join(twice)} is there twice. Give each number a name of its own.")
    for number in recipe.numbers:
        for run in runs_of(number):
            _known("run", run, runs, where)
        if number.run is None and not recipe.obstacle and not number.invalid:
            raise PartitaError(f"{where}: {number.name} has no run. Name one, or say why there is none (obstacle).")
        if number.published is not None and not number.where:
            raise PartitaError(f"{where}: {number.name} does not state its place in the paper (where).")
        if (number.spread is None) != (number.spread_of is None):
            raise PartitaError(f"{where}: {number.name} needs both spread and spread_of, or neither.")
        if number.minus is not None:
            _known("number", number.minus, names, f"{where}: {number.name}")
    for claim in recipe.claims:
        if len(claim.higher) != len(claim.lower):
            raise PartitaError(f"{where}: {claim.id} has {len(claim.higher)} higher and {len(claim.lower)} lower.")
        if bool(claim.higher) == bool(claim.untested):
            raise PartitaError(f"{where}: {claim.id} needs numbers (higher and lower) or a reason (untested).")
        for name in (*claim.higher, *claim.lower):
            _known("number", name, names, f"{where}: {claim.id}")
    for picture in recipe.pictures:
        of_numbers = picture.drawing in ("numbers", "gains", "sizes")
        for name in picture.of:
            _known("number" if of_numbers else "run", name, names if of_numbers else runs, f"{where}: {picture.name}")
    for key, several in (("analyses", recipe.analyses.values()), ("authors", [recipe.authors.values()])):
        for run in (each for names in several for each in names):
            _known("run", run, list(recipe.runs), f"{where}, {key}")


def runs_of(number: Number) -> tuple[str, ...]:
    """The names of the runs that a number may be of."""
    return (number.run,) if isinstance(number.run, str) else number.run or ()


def _known(what: str, name: str, known: Iterable[str], where: str) -> None:
    if name not in set(known):
        raise PartitaError(f"{where}: {unknown(what, name, list(known))}")
