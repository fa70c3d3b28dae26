"""Is a value of the type that a signature says? What it must be otherwise, in words."""

import collections.abc
import dataclasses
import types
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from .ranges import FINITE, Range

LONGEST = 80
"""Characters of a value in a message."""


def problem_of(kind: Any, value: object) -> str | None:
    """What a value of this type must be and is not; None where it is, or where the type says too little."""
    options = options_of(kind)
    problems = [_problem(option, value) for option in options]
    if None in problems:
        return None
    if isinstance(value, Real) and not isinstance(value, bool):
        # Of a number, only what is said of numbers is of interest.
        problems = [p for option, p in zip(options, problems, strict=True) if _is_number(option)][:1] or problems
    if isinstance(value, tuple):
        problems = [p for option, p in zip(options, problems, strict=True) if get_origin(option) is tuple] or problems
    words = list(dict.fromkeys(problem for problem in problems if problem))
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def options_of(kind: Any) -> tuple[Any, ...]:
    """The members of a union; a type alone is the only one."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def ranges_of(kind: Any) -> list[Range]:
    """The ranges that a type declares, itself or in its parts."""
    if get_origin(kind) is Annotated:
        return [each for each in kind.__metadata__ if isinstance(each, Range)] or ranges_of(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType, tuple):
        return [found for part in get_args(kind) for found in ranges_of(part)]
    return [FINITE] if kind in (int, float) else []


def parse_of(options: Sequence[Any]) -> Callable[[str], object] | None:
    """How text becomes a value, where a type can `parse` it and text itself is not meant."""
    if any(_plain(option) is str or get_origin(option) is Literal for option in options):
        return None
    return next((option.parse for option in options if isinstance(option, type) and hasattr(option, "parse")), None)


def shown(value: object) -> str:
    """A value in a message, in one line that is not too long.

    >>> shown("a" * 100)[-12:]
    'aaaaaaaa ...'
    """
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType):
        return f"{'the class' if isinstance(value, type) else 'the function'} {value.__name__}"
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 4]} ..."


def _problem(kind: Any, value: object) -> str | None:
    plain, origin = _plain(kind), get_origin(_plain(kind))
    if plain is type(None):
        return None if value is None else "None"
    if _is_number(kind):
        return _number_problem(kind, value)
    if origin is tuple:
        return _tuple_problem(plain, value)
    if origin is collections.abc.Mapping:
        return _mapping_problem(plain, value)
    if origin is Literal:
        return None if value in get_args(plain) else " or ".join(map(repr, get_args(plain)))
    if origin is collections.abc.Callable:
        return None if callable(value) else "a function"
    if plain in (bool, str):
        wanted = "True or False" if plain is bool else "text"
        return None if isinstance(value, plain) else wanted
    if getattr(plain, "_is_protocol", False):
        # A protocol is anything that has its functions; what is surely none of them is a plain value or a function.
        odd = isinstance(value, str | bytes | int | float | list | tuple | dict | type | types.FunctionType | None)
        return f"of type {plain.__name__}" if odd else None
    if isinstance(plain, type) and (dataclasses.is_dataclass(plain) or hasattr(plain, "parse")):
        example = getattr(plain, "example", "")
        return None if isinstance(value, plain) else f"of type {plain.__name__}{example and f', as in {example}'}"
    return None


def _tuple_problem(kind: Any, value: object) -> str | None:
    if not isinstance(value, tuple):
        return "a tuple"
    parts = get_args(kind)
    if parts[1:] == (...,):
        parts = parts[:1] * len(value)
    if len(parts) != len(value):
        return f"a tuple of {len(parts)}"
    problems = map(_problem, parts, value)
    prefix = "in every entry "
    return next((prefix + problem.removeprefix(prefix) for problem in problems if problem), None)


def _mapping_problem(kind: Any, value: object) -> str | None:
    if not isinstance(value, collections.abc.Mapping):
        return "a table"
    problems = [
        problem_of(part, each) for pair in value.items() for part, each in zip(get_args(kind), pair, strict=True)
    ]
    return next((f"in every entry {problem}" for problem in problems if problem), None)


def _number_problem(kind: Any, value: object) -> str | None:
    [allowed] = ranges_of(kind)
    whole = _plain(kind) is int
    if isinstance(value, bool) or not isinstance(value, Real):
        return f"a {'whole ' if whole else ''}number{'' if allowed == FINITE else f', {allowed}'}"
    if not whole and isinstance(value, int) and abs(value) >= 2**63:
        return f"{allowed}, and a float rather than a whole number of this size"
    # A whole number may be too large for a float.
    if (int(value) if isinstance(value, Integral) else float(value)) in allowed and (
        not whole or isinstance(value, Integral)
    ):
        return None
    if whole and allowed == FINITE:
        return "a whole number"
    return f"{'a whole number, ' if whole else ''}{allowed}"


def _plain(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _is_number(kind: Any) -> bool:
    return _plain(kind) in (int, float)
