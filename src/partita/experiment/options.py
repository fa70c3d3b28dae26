"""Which options has a method? Names, types, defaults and meaning, from its signature."""

import inspect
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from ..core.algorithm import Algorithm
from ..core.optimizers import SGD, Adaptive
from ..core.selectors import Selector
from ..signatures import FINITE, Range
from .description import optimizer_settings
from .meanings import meaning


@dataclass(frozen=True)
class Option:
    """A keyword argument of the function that makes a method."""

    name: str
    type: str
    default: str
    meaning: str


def options_of(make: Callable[..., Any]) -> list[Option]:
    hints = get_type_hints(make, include_extras=True)
    return [
        Option(name, _type(hints.get(name, Any)), _default(parameter.default), meaning(make.__name__, name))
        for name, parameter in inspect.signature(make).parameters.items()
    ]


def source_of(make: Callable[..., Any]) -> str:
    """Where a method is from: the first line of its module."""
    return (inspect.getdoc(inspect.getmodule(make)) or "").partition("\n")[0]


def _type(kind: Any) -> str:
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        [allowed] = [each for each in kind.__metadata__ if isinstance(each, Range)] or [FINITE]
        return f"{_type(inner[0])}{'' if allowed == FINITE else f', {allowed}'}"
    if origin in (Union, types.UnionType):
        return " or ".join(_type(each) for each in inner)
    if origin is Literal:
        return " | ".join(map(str, inner))
    if origin is tuple:
        return f"a list, each {_type(inner[0])}"
    known = {int: "whole number", float: "number", bool: "true or false", str: "text", type(None): "none"}
    if kind in known:
        return known[kind]
    names = {Selector: "selector", Algorithm: "algorithm", SGD: "sgd"}
    return names.get(kind) or str(getattr(kind, "__name__", kind)).lower()


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
