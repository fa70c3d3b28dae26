"""Which options has a function? Names, types, defaults and meaning, from its signature."""

import collections.abc
import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from ...core.algorithm import Algorithm
from ...core.optimizers import SGD, Adaptive, Optimizer
from ...core.selectors import Selector
from ...core.server import Server
from ...core.signatures import FINITE, Range
from ...data.federation import Federation
from ..tasks import Factory
from .description import optimizer_settings
from .meanings import meaning

NAMES: dict[Any, str] = {
    Selector: "selector",
    Algorithm: "algorithm",
    Optimizer: "optimizer",
    SGD: "sgd",
    Server: "server",
    Factory: "network",
    Federation: "data",
}


@dataclass(frozen=True)
class Option:
    """A keyword argument of the function that makes a method, a network, data or a split."""

    name: str
    type: str
    default: str
    meaning: str


def options_of(make: Callable[..., Any], kind: str = "") -> list[Option]:
    """The options of a method, or of a function of another kind, as in `list`."""
    hints = get_type_hints(make, include_extras=True)
    return [
        Option(name, _type(hints.get(name, Any)), _default(parameter.default), meaning(make.__name__, name, kind))
        for name, parameter in inspect.signature(make).parameters.items()
    ]


def source_of(make: Callable[..., Any]) -> str:
    """Where a method is from: the first line of its module."""
    return (inspect.getdoc(inspect.getmodule(make)) or "").partition("\n")[0]


def _type(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if kind in NAMES:
        return NAMES[kind]
    if origin is Annotated:
        [allowed] = [each for each in kind.__metadata__ if isinstance(each, Range)] or [FINITE]
        return f"{_type(inner[0])}{'' if allowed == FINITE else f', {allowed}'}"
    if origin in (Union, types.UnionType):
        # Functions and samplers can be given in Python alone.
        found = [_type(each) for each in inner if not _only_python(each)]
        if any(" | " in each for each in found):
            return " | ".join(found)
        return (", or " if any(", " in each for each in found) else " or ").join(found)
    if origin is Literal:
        return " | ".join(map(str, inner))
    if origin in (tuple, collections.abc.Sequence):
        return f"list of {_type(inner[0])}"
    known = {int: "whole number", float: "number", bool: "true or false", str: "text", type(None): "none"}
    if kind in known:
        return known[kind]
    return str(getattr(kind, "__name__", kind)).lower()


def _only_python(kind: Any) -> bool:
    if kind in NAMES:
        return False
    return get_origin(kind) is collections.abc.Callable or getattr(kind, "_is_protocol", False)


def _default(value: object) -> str:
    if value is inspect.Parameter.empty:
        return "required"
    if isinstance(value, SGD | Adaptive):
        return " ".join(f"{key}={each}" for key, each in optimizer_settings(value).items())
    if isinstance(value, Algorithm):
        return value.label
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value)
