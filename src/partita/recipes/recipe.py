"""What is a recipe? A table or figure of a paper: the runs that make it, its published numbers and its claims."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from ..errors import PartitaError, unknown
from ..evaluation.variants import Variant
from ..parsing import parse_toml
from ..signatures import Positive, check_fields

Paper = Literal["flayer", "fedbabu", "partial", "fedper", "partita"]
Protocol = Literal["published", "reduced"]
Size = Literal["full", "small"]
Average = Literal["micro", "macro"]
BaselineWork = Literal["tuned", "quick", "none"]


@dataclass(frozen=True)
class Number:
    """One number of the table, in per cent, and where we have it from."""

    name: str
    run: str | None = None
    """None where no settings of ours make it; `Recipe.obstacle` says why."""
    variant: Variant | None = None
    """The model that is scored; None is the one that the method is meant to be used with."""
    average: Average = "macro"
    published: float | None = None
    spread: float | None = None
    """The published standard deviation."""
    spread_of: Positive | None = None
    """Over how many clients or seeds the spread is."""
    where: str = ""
    invalid: str | None = None
    """Why the published number is no target."""

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
    """By at least so many points."""

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class Small:
    """The variant that fits a small machine."""

    minutes: float
    changed: str
    """In words."""
    seeds: Positive = 1
    settings: Mapping[str, Any] = field(default_factory=dict)

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
    """Of the full variant, estimated for two cores."""
    seeds: Positive = 1
    baselines: BaselineWork = "none"
    obstacle: str | None = None
    """Why it is not run here, and what it would take."""
    deviations: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What we think of our results."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    runs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By name: what a run's settings add to the common ones."""
    numbers: tuple[Number, ...] = ()
    claims: tuple[Claim, ...] = ()
    small: Small | None = None

    def __post_init__(self) -> None:
        check_fields(self)

    def settings_of(self, run: str, size: Size = "full") -> dict[str, Any]:
        """The settings of a run, as an experiment file would hold them."""
        if run not in self.runs:
            raise PartitaError(unknown(f"run of {self.name}", run, self.runs))
        merged = merge(self.settings, self.runs[run])
        return merge(merged, self.small.settings) if size == "small" and self.small else merged

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


PARTS: Mapping[str, type[Any]] = {"numbers": Number, "claims": Claim}


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
        return kind(**{key: tuple(value) if isinstance(value, list) else value for key, value in given.items()})
    except PartitaError as problem:
        raise PartitaError(f"{where}: {problem}") from problem


def _check(recipe: Recipe, where: str) -> None:
    names = [each.name for each in recipe.numbers]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise PartitaError(f"{where}: {', '.join(twice)} is there twice. Give each number a name of its own.")
    for number in recipe.numbers:
        if number.run is not None and number.run not in recipe.runs:
            raise PartitaError(f"{where}: {unknown('run', number.run, recipe.runs)}")
        if number.run is None and not recipe.obstacle:
            raise PartitaError(f"{where}: {number.name} has no run. Name one, or say why there is none (obstacle).")
        if number.published is not None and not number.where:
            raise PartitaError(f"{where}: {number.name} does not say where it stands in the paper (where).")
        if (number.spread is None) != (number.spread_of is None):
            raise PartitaError(f"{where}: {number.name} needs both spread and spread_of, or neither.")
    for claim in recipe.claims:
        if len(claim.higher) != len(claim.lower):
            raise PartitaError(f"{where}: {claim.id} has {len(claim.higher)} higher and {len(claim.lower)} lower.")
        for name in (*claim.higher, *claim.lower):
            if name not in names:
                raise PartitaError(f"{where}: {claim.id}: {unknown('number', name, names)}")
