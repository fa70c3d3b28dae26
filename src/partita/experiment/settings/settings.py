"""How do settings from a file or the command line become values? By the signature of the function they are for.

A function's keyword arguments (or a dataclass's fields) are its settings. Names, types and defaults come from the
signature, so nothing is declared twice.
"""

import collections.abc
import dataclasses
import inspect
import os
import sys
import types
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from torch import nn

from ... import registry
from ...core.algorithm import Algorithm
from ...core.batching import Batching
from ...core.optimizers import OPTIMIZERS, SGD, Optimizer
from ...core.schedules import Schedule
from ...core.selectors import Selector
from ...core.server import Server
from ...core.signatures.kinds import shown
from ...data.federation import Federation, default_split, federate
from ...data.pool import Pool
from ...data.split import Split
from ...data.splits.dirichlet import dirichlet
from ...errors import PartitaError, unknown
from ..tasks import Factory
from .keys import unknown_key

Settings = Mapping[str, object]
Made = TypeVar("Made")


def build(make: Callable[..., Made], settings: Settings, where: str = "") -> Made:
    """Call a function or dataclass with settings."""
    return make(**arguments(make, settings, where))


def named(kind: registry.Kind, settings: object, where: str) -> Any:
    """Build what settings name: `"fedper"`, or `{"name": "fedper", "epochs": 2}`."""
    name, rest = _name_and_rest(settings, where)
    return build(registry.get(kind, name), rest, where)


def arguments(
    make: Callable[..., object],
    settings: Settings,
    where: str,
    *,
    without: tuple[str, ...] = (),
    defaults: Settings | None = None,
    complete: bool = True,
) -> dict[str, Any]:
    """Arguments for a function, of the types it wants; unknown keys are errors with a suggestion.

    `without` are parameters that settings cannot give. `defaults` replace those of the signature. Without `complete`,
    arguments may be missing.
    """
    parameters = {n: p for n, p in inspect.signature(make).parameters.items() if n not in without}
    # A class that is no record declares its arguments in its constructor.
    of_class = inspect.isclass(make) and not dataclasses.is_dataclass(make)
    hints = get_type_hints(make.__init__ if of_class else make)
    known = {name: (defaults or {}).get(name, parameter.default) for name, parameter in parameters.items()}
    for key in settings:
        if key not in known:
            raise PartitaError(unknown_key(key, known, where))
    missing = [name for name, default in known.items() if default is inspect.Parameter.empty and name not in settings]
    if missing and complete:
        raise PartitaError(f"{where or 'The experiment'} needs a value for {', '.join(missing)}.")
    return {k: convert(hints.get(k, object), v, f"{where}.{k}".lstrip("."), known[k]) for k, v in settings.items()}


def convert(kind: Any, value: object, where: str, default: object = inspect.Parameter.empty) -> Any:
    """A value of the annotated type, from a TOML value."""
    if kind in _CONVERSIONS:
        return _CONVERSIONS[kind](value, where, default)
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _one_of(get_args(kind), value, where, default)
    if origin is Literal:
        if value not in get_args(kind):
            raise PartitaError(f"{where}: {unknown('value', str(value), map(str, get_args(kind)))}")
        return _untrusted(value)
    if origin is collections.abc.Mapping and isinstance(value, Mapping):
        return {str(key): convert(get_args(kind)[1], each, f"{where}.{key}") for key, each in value.items()}
    if origin is collections.abc.Sequence and isinstance(value, list | tuple):
        return tuple(convert(get_args(kind)[0], each, f"{where}[{at}]") for at, each in enumerate(value))
    if origin is tuple and isinstance(value, list):
        inner = get_args(kind)
        kinds = [inner[0]] * len(value) if inner[-1] is ... else inner
        if len(kinds) != len(value):
            raise PartitaError(f"{where}: {value!r} has {len(value)} entries, not {len(kinds)}.")
        return tuple(convert(k, each, f"{where}[{at}]") for at, (k, each) in enumerate(zip(kinds, value, strict=True)))
    if dataclasses.is_dataclass(kind) and isinstance(value, Mapping):
        return _dataclass(kind, value, where, default)
    if _is_class(kind) and isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return _untrusted(value)
    raise PartitaError(f"{where}: {value!r} is not {_describe(kind)}.")


def _untrusted(value: object) -> object:
    """A plain setting, without the mark that it is trusted."""
    return str(value) if isinstance(value, registry.Trusted) else value


def _one_of(kinds: tuple[Any, ...], value: object, where: str, default: object) -> Any:
    if type(None) in kinds and value in (None, "none"):
        return None
    problems = []
    for kind in kinds:
        try:
            return convert(kind, value, where, default)
        except PartitaError as problem:
            # A module exists only in Python; settings cannot describe one.
            problems += [] if kind is nn.Module else [str(problem)]
    raise PartitaError(problems[0])


def _number(value: object, where: str, default: object) -> float:
    huge = isinstance(value, int) and value.bit_length() >= sys.float_info.max_exp
    if isinstance(value, bool) or not isinstance(value, int | float) or huge:
        raise PartitaError(f"{where}: {shown(value)} is not a number{' that a float can hold' if huge else ''}.")
    return float(value)


def _selector(value: object, where: str, default: object) -> Selector:
    return value if isinstance(value, Selector) else Selector.parse(_text(value, where))


def _schedule(value: object, where: str, default: object) -> Schedule:
    return value if isinstance(value, Schedule) else Schedule.parse(_text(value, where))


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise PartitaError(f"{where}: {value!r} is not text.")
    return value


def _optimizer(value: object, where: str, default: object) -> Optimizer:
    """`{"lr": 0.1}` changes the default's learning rate, `{"name": "adam", "lr": 0.1}` is another optimizer."""
    if not isinstance(value, Mapping):
        raise PartitaError(f"{where}: {value!r} is not an optimizer. For example: {where}.lr = 0.1.")
    if "name" not in value:
        kind: Any = type(default) if dataclasses.is_dataclass(default) else SGD
        changed: Optimizer = _dataclass(kind, value, where, default)
        return changed
    name, rest = _name_and_rest(value, where)
    if name not in OPTIMIZERS:
        raise PartitaError(f"{where}: {unknown('optimizer', name, OPTIMIZERS)}")
    return build(OPTIMIZERS[name], rest, where)


def _sgd(value: object, where: str, default: object) -> SGD:
    made = _optimizer(value, where, default)
    if not isinstance(made, SGD):
        given = value["name"] if isinstance(value, Mapping) and "name" in value else type(made).__name__
        raise PartitaError(f"{where} is {given!r}, but this method needs SGD. Set {where}.name = 'sgd'.")
    return made


def _batching(value: object, where: str, default: object) -> Batching:
    """`32` is the size of a batch."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Batching(value)
    if not isinstance(value, Mapping):
        raise PartitaError(f"{where}: {value!r} is not the size of a batch. For example: {where}.size = 32.")
    made: Batching = _dataclass(Batching, value, where, default)
    return made


def _algorithm(value: object, where: str, default: object) -> Algorithm:
    """An algorithm from settings. Without a name, they change the default algorithm."""
    made: Algorithm
    if isinstance(value, Mapping) and "name" not in value and isinstance(default, Algorithm):
        make = registry.get("algorithms", registry.Trusted(default.made_by))
        made = make(**{**default.settings, **arguments(make, value, where, defaults=default.settings)})
    else:
        made = named("algorithms", value, where)
    return made


def _server(value: object, where: str, default: object) -> Server:
    """A server from settings. Without a name, they are settings of plain averaging."""
    if isinstance(value, Mapping) and "name" not in value:
        value = {"name": "averaging", **value}
    made: Server = named("servers", value, where)
    return made


def _split(value: object, where: str, default: object) -> Split:
    made: Split = value if isinstance(value, Split) else named("splits", value, where)
    return made


def federation_of(value: object, where: str) -> Federation:
    """Data from settings: `name` and its arguments make a pool, and the other settings divide it."""
    name, given = _name_and_rest(value, where)
    settings = {"name": name, **_absolute(given)}
    found = pool_and_division(settings, where)
    if isinstance(found, Federation):
        return dataclasses.replace(found, settings=settings)
    pool, division = found
    split = division.setdefault("split", default_split(pool))
    # The user's own split is found again by the given path, not by its name.
    told = given.get("split")
    path = told.get("name", split.name) if isinstance(told, Mapping) else told or split.name
    settings["split"] = {"name": path, **split.settings}
    return dataclasses.replace(federate(pool, **division), settings=settings)


def _absolute(settings: Settings) -> Settings:
    """The settings with absolute paths of files."""
    made = {key: _absolute(value) if isinstance(value, Mapping) else value for key, value in settings.items()}
    path = made.get("path")
    return {**made, "path": os.path.abspath(path)} if isinstance(path, str) else made


def pool_and_division(value: object, where: str) -> Federation | tuple[Pool, dict[str, Any]]:
    """The pool that settings name, and the settings for `federate`; or a federation if the data come divided."""
    name, rest = _name_and_rest(value, where)
    source = registry.get("data", name)
    own, dividing = (inspect.signature(function).parameters for function in (source, federate))
    if unknown_keys := [key for key in rest if key not in own and key not in dividing]:
        known = {n: p.default for n, p in (*own.items(), *dividing.items()) if n != "pool"} | {"split": dirichlet()}
        raise PartitaError(unknown_key(unknown_keys[0], known, where))
    pool = build(source, {key: given for key, given in rest.items() if key in own}, where)
    division = {key: given for key, given in rest.items() if key in dividing and key not in own}
    if isinstance(pool, Federation):
        if given := division.keys() - {"seed"}:
            raise PartitaError(f"{where}: {name} is already divided among clients. Omit {', '.join(sorted(given))}.")
        return pool
    if isinstance(changes := division.get("split"), Mapping) and "name" not in changes:
        division["split"] = {"name": default_split(pool).name, **changes}
    return pool, arguments(federate, division, where, without=("pool",))


def undivided(value: object, where: str) -> tuple[Pool, dict[str, Any]]:
    """A pool from settings."""
    found = pool_and_division(value, where)
    if isinstance(found, Federation):
        raise PartitaError(f"{where}: {found.name} is already divided among clients. See: partita data split")
    return found


def _model(value: object, where: str, default: object) -> Factory:
    """A factory that takes the remaining facts from the data: the shape of an input and the number of classes."""
    name, rest = _name_and_rest(value, where)
    make = registry.get("models", name)
    return partial(make, **arguments(make, rest, where, without=("shape", "classes", "client"), complete=False))


_CONVERSIONS: dict[Any, Callable[[object, str, object], Any]] = {
    Any: lambda value, _, __: value,
    float: _number,
    Selector: _selector,
    Schedule: _schedule,
    Optimizer: _optimizer,
    SGD: _sgd,
    Algorithm: _algorithm,
    Batching: _batching,
    Server: _server,
    Federation: lambda value, where, _: value if isinstance(value, Federation) else federation_of(value, where),
    Split: _split,
    Factory: _model,
}


def _dataclass(kind: Any, value: Settings, where: str, default: object) -> Any:
    """A dataclass from settings; fields that are not given keep the default's values."""
    kept = vars(default) if isinstance(default, kind) else {}
    given = arguments(kind, value, where, defaults=kept)
    try:
        return kind(**{**kept, **given})
    except PartitaError as problem:
        raise PartitaError(f"{where}: {problem}") from problem


def _name_and_rest(settings: object, where: str) -> tuple[str, Settings]:
    if isinstance(settings, str):
        return settings, {}
    if isinstance(settings, Mapping) and isinstance(settings.get("name"), str):
        return settings["name"], {key: value for key, value in settings.items() if key != "name"}
    raise PartitaError(f"{where}: {settings!r} has no name. For example: {where} = 'NAME', or {where}.name = 'NAME'.")


def _is_class(kind: Any) -> bool:
    """Whether values can be of this type. A protocol says what a value can do, and only Python can give such values."""
    return isinstance(kind, type) and not getattr(kind, "_is_protocol", False)


def _describe(kind: Any) -> str:
    known = {int: "a whole number", bool: "true or false", str: "text", tuple: "a list"}
    return known.get(get_origin(kind) or kind, getattr(kind, "__name__", str(kind)))
