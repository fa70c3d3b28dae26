"""What may an experiment file say? A JSON schema for editors, made from the signatures that read the file."""

import collections.abc
import dataclasses
import inspect
import types
from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from ... import registry
from ...core.algorithm import Algorithm
from ...core.batching import Batching
from ...core.optimizers import OPTIMIZERS, SGD, Adaptive, Optimizer
from ...core.schedules import Schedule
from ...core.selectors import Selector
from ...core.server import Server
from ...core.signatures import Range
from ...data.federation import Federation, federate
from ...data.split import Split
from ...errors import PartitaError
from ..experiment import Experiment
from ..tasks import Factory
from .description import plain
from .files import DEFAULTS
from .meanings import meaning

Schema = dict[str, Any]
FROM_DATA = ("shape", "classes", "client")
"""What a network takes from the data, not from settings."""
KINDS: dict[Any, registry.Kind] = {Algorithm: "algorithms", Factory: "models", Federation: "data"}
"""Things that settings without a name change: the default of that kind."""
NO_DEFAULT = (inspect.Parameter.empty, None, Ellipsis)


def schema() -> Schema:
    """The schema of an experiment file (JSON Schema, draft 7), with everything that is installed by name."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Partita experiment",
        **_table(properties(Experiment, "experiment")),
        "definitions": {
            "algorithm": _named("algorithms"),
            "server": _any_of(*_named("servers")["anyOf"], _unnamed("servers", "averaging")),
            "model": _named("models"),
            "data": _named("data"),
            "split": _any_of(
                *_named("splits")["anyOf"], *(_unnamed("splits", each) for each in ("dirichlet", "natural"))
            ),
            "optimizer": _optimizer(OPTIMIZERS),
            "sgd": _optimizer({"sgd": SGD}),
            "batching": _any_of({"type": "integer", "minimum": 1}, _table(properties(Batching))),
        },
    }


_REFERENCES: dict[Any, str] = {
    Algorithm: "algorithm",
    Server: "server",
    Factory: "model",
    Federation: "data",
    Split: "split",
    Optimizer: "optimizer",
    SGD: "sgd",
    Batching: "batching",
}
_PLAIN = {int: "integer", float: "number", bool: "boolean", str: "string", Selector: "string", Schedule: "string"}


def _of(kind: Any) -> Schema | None:
    """The schema of a value of this type; None if settings cannot give one, as of a function."""
    origin, inner = get_origin(kind), get_args(kind)
    if kind in _REFERENCES:
        # Editors ignore the keys next to a reference, so the reference is in a list.
        return {"allOf": [{"$ref": f"#/definitions/{_REFERENCES[kind]}"}]}
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if kind is object:
        return {}
    if kind is type(None):
        return {"const": "none"}
    if origin is Annotated:
        found = _of(inner[0])
        limits = [_limits(each) for each in kind.__metadata__ if isinstance(each, Range)]
        return found and {**found, **(limits[0] if limits else {})}
    if origin in (Union, types.UnionType):
        members = [found for each in inner if each is not type(None) and (found := _of(each)) is not None]
        optional = [{"const": "none"}] if type(None) in inner else []
        return _any_of(*members, *optional) if members else None
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (tuple, collections.abc.Sequence):
        return _list([each for each in inner if each is not ...], any_length=origin is not tuple or ... in inner)
    if origin is collections.abc.Mapping:
        found = _of(inner[1])
        return found and {"type": "object", "additionalProperties": found}
    return _table(properties(kind), _required(kind)) if _is_record(kind) else None


def _is_record(kind: Any) -> bool:
    return dataclasses.is_dataclass(kind)


def _list(parts: list[Any], any_length: bool) -> Schema | None:
    found = [_of(each) for each in parts]
    if None in found:
        return None
    if any_length:
        return {"type": "array", "items": found[0]}
    return {"type": "array", "items": found, "minItems": len(found), "maxItems": len(found)}


def _limits(allowed: Range) -> Schema:
    found = {
        "exclusiveMinimum" if allowed.low_open else "minimum": allowed.low,
        "exclusiveMaximum" if allowed.high_open else "maximum": allowed.high,
    }
    return {key: value for key, value in found.items() if abs(value) != float("inf")}


def _any_of(*choices: Schema) -> Schema:
    return choices[0] if len(choices) == 1 else {"anyOf": list(choices)}


def _table(known: dict[str, Schema], required: Iterable[str] = ()) -> Schema:
    found: Schema = {"type": "object", "properties": known, "additionalProperties": False}
    return {**found, "required": needed} if (needed := [name for name in required if name in known]) else found


def _required(make: Callable[..., Any]) -> list[str]:
    return [name for name, each in inspect.signature(make).parameters.items() if each.default is each.empty]


def properties(make: Callable[..., Any], kind: str = "") -> dict[str, Schema]:
    """The schema of every argument that settings can give, with its meaning and default."""
    hints = get_type_hints(make, include_extras=True)
    without = (*(FROM_DATA if kind == "models" else ()), "pool")
    defaults = {name: each.default for name, each in inspect.signature(make).parameters.items() if name not in without}
    if make is Experiment:
        defaults.update(DEFAULTS)
    found = {name: _property(hints.get(name, object), default) for name, default in defaults.items()}
    return {
        name: {**_told(meaning(make.__name__, name, kind), defaults[name]), **each}
        for name, each in found.items()
        if each is not None
    }


def _property(hint: Any, default: object) -> Schema | None:
    found = _of(hint)
    name = default.name if isinstance(default, Algorithm) else default
    changed = [kind for known, kind in KINDS.items() if known in (hint, *get_args(hint)) and isinstance(name, str)]
    return _any_of(found, _unnamed(changed[0], str(name))) if found and changed else found


def _told(text: str, default: object) -> Schema:
    try:
        value = None if default in NO_DEFAULT else plain(default)
    except PartitaError:
        value = None
    told = {"description": text, "default": value}
    return {key: each for key, each in told.items() if each not in (None, "")}


def _named(kind: registry.Kind) -> Schema:
    """A name, a table with a name and options, or something of the user's own."""
    names = registry.names(kind)
    own = {"type": "string", "pattern": ":", "description": "your own: package.module:function, with --trust"}
    tables = [
        _table({"name": {"const": name}, **_options(kind, name)}, ["name", *_needed(kind, name)]) for name in names
    ]
    return _any_of({"enum": names}, own, *tables, {"type": "object", "properties": {"name": own}, "required": ["name"]})


def _unnamed(kind: registry.Kind, name: str) -> Schema:
    """A table without a name, which changes the options of a default."""
    return _table(_options(kind, name))


def _options(kind: registry.Kind, name: str) -> dict[str, Schema]:
    beside = properties(federate, "division") if kind == "data" else {}
    return {**beside, **properties(registry.get(kind, name), kind)}


def _needed(kind: registry.Kind, name: str) -> list[str]:
    """Networks take what is missing from the data."""
    return [] if kind == "models" else _required(registry.get(kind, name))


def _optimizer(known: dict[str, Callable[..., Any]]) -> Schema:
    named = [
        _table({"name": {"const": name}, **properties(make)}, ["name", *_required(make)])
        for name, make in known.items()
    ]
    changed = [_table(properties(make)) for make in (SGD, Adaptive) if make in known.values() or len(known) > 1]
    return _any_of(*named, *changed)
