"""How does an experiment file become an experiment? Its settings are read, overridden and built."""

import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...data.federation import Federation, federate
from ...data.splits.dirichlet import dirichlet
from ...errors import PartitaError
from ...parsing import parse_toml
from ...registry import Trusted, get
from ..experiment import Experiment
from .keys import unknown_key
from .settings import Settings, build, federation_of

DEFAULTS: Settings = {"algorithm": "fedper", "model": "mlp", "data": "digits"}


def read(path: Path | None, overrides: Iterable[str] = (), *, trust: bool = False) -> dict[str, Any]:
    """Settings of a TOML file (or the defaults), changed by `dotted.key=value`.

    Names in the overrides are trusted, because the user wrote them. Names in a file are trusted only on request.
    """
    settings: dict[str, Any] = dict(DEFAULTS)
    if path is not None:
        try:
            given = parse_toml(path.read_text(encoding="utf-8-sig"))
        except OSError as problem:
            raise PartitaError(f"Cannot read {path}: {problem.strerror}.") from problem
        except ValueError as problem:
            raise PartitaError(f"{path} is not valid TOML: {problem}.") from problem
        for key, value in (trusted(given) if trust else given).items():
            # Settings without a name change the default.
            named = isinstance(value, dict) and "name" not in value and key in DEFAULTS
            settings[key] = {"name": DEFAULTS[key], **value} if named else value
    for override in overrides:
        _override_(settings, override)
    return settings


def make(settings: Mapping[str, object], data: Federation | None = None) -> Experiment:
    """Make the experiment that settings describe; `data`, if given, were made from these settings before."""
    known = {key: value for key, value in settings.items() if key != "data"}
    fields = {name: field.default for name, field in inspect.signature(Experiment).parameters.items()}
    if wrong := [key for key in known if key not in fields]:
        raise PartitaError(unknown_key(wrong[0], {**fields, **_parts(settings)}, ""))
    divided = data or federation_of(data_of(settings), "data")
    experiment: Experiment = build(Experiment, {**known, "data": divided})
    return experiment


def _parts(settings: Mapping[str, object]) -> Settings:
    """The settings of the method and of the division, for the place of a setting that was given without it."""
    given = settings.get("algorithm")
    name = given.get("name") if isinstance(given, Mapping) else given
    method = inspect.signature(get("algorithms", name if isinstance(name, str) else "fedper")).parameters
    division = inspect.signature(federate).parameters
    return {
        "algorithm": {key: option.default for key, option in method.items()},
        "data": {key: option.default for key, option in division.items()} | {"split": dirichlet()},
    }


def data_of(settings: Mapping[str, object]) -> object:
    """The settings of the data. By default, the data are split with the experiment's seed."""
    data = settings.get("data")
    if isinstance(data, str):
        data = {"name": data}
    return {"seed": settings.get("seed", 0), **data} if isinstance(data, Mapping) else data


def trusted(settings: Any) -> Any:
    """Settings with all names marked as trusted."""
    if isinstance(settings, Mapping):
        return {key: trusted(value) for key, value in settings.items()}
    if isinstance(settings, list | tuple):
        return [trusted(value) for value in settings]
    return Trusted(settings) if isinstance(settings, str) else settings


def _override_(settings: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise PartitaError(f"{override!r} is not of the form key=value, as in rounds=10 or algorithm.optimizer.lr=0.1.")
    *path, last = key.split(".")
    inner = settings
    for part in path:
        value = inner.get(part, {})
        if not isinstance(value, str | Mapping):
            raise PartitaError(f"{override!r}: {part} is {value!r}, which has no settings of its own.")
        # A name alone means that object with default settings.
        inner[part] = {"name": value} if isinstance(value, str) else dict(value)
        inner = inner[part]
    inner[last] = trusted(_value(text))


def values_of(text: str) -> list[str]:
    """The texts of several values, between commas; those inside brackets, braces and quotes divide nothing.

    >>> values_of("0.03,0.1"), values_of("fedavg, fedper"), values_of("[1, 2],[3]")
    (['0.03', '0.1'], ['fedavg', 'fedper'], ['[1, 2]', '[3]'])
    """
    found, depth, quote = [""], 0, ""
    for each in text:
        if quote or each in "\"'":
            quote = ("" if each == quote else quote) if quote else each
        depth += (each in "[{(") - (each in "]})") if not quote else 0
        if each == "," and not depth and not quote:
            found.append("")
        else:
            found[-1] += each
    return [each.strip() for each in found]


def _value(text: str) -> object:
    try:
        return parse_toml(f"value = {text}")["value"]
    except ValueError:
        return text
