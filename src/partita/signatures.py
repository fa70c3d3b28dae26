"""How do signatures define settings? They declare ranges, and what a function makes remembers its arguments.

A range is part of a parameter's or field's type, `lr: Annotated[float, at_least(0)]`. It is checked whenever the
function is called or the record is made. A number without a range must still be finite.
"""

import inspect
import math
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, wraps
from typing import Annotated, Any, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from .errors import PartitaError

Arguments = ParamSpec("Arguments")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Range:
    """The numbers from `low` to `high`. An open end is excluded; nan and infinity always are."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        return above and below and abs(value) <= sys.float_info.max

    def __str__(self) -> str:
        """
        >>> [str(each) for each in (at_least(0), above(0), between(0, 1), Range(0, 1, high_open=True), Range())]
        ['at least 0', 'above 0', 'from 0 to 1', 'at least 0 and below 1', 'finite']
        """
        low = "" if self.low == -math.inf else f"{'above' if self.low_open else 'at least'} {self.low:,}"
        high = "" if self.high == math.inf else f"{'below' if self.high_open else 'at most'} {self.high:,}"
        if low and high and not self.low_open and not self.high_open:
            return f"from {self.low:,} to {self.high:,}"
        return " and ".join(part for part in (low, high) if part) or "finite"


def at_least(low: float) -> Range:
    return Range(low)


def above(low: float) -> Range:
    return Range(low, low_open=True)


def between(low: float, high: float) -> Range:
    return Range(low, high)


FINITE = Range()

Rate = Annotated[float, at_least(0)]
"""A learning rate, or a factor of one. With 0, nothing is trained."""
Strength = Annotated[float, at_least(0)]
"""The coefficient of a term of the loss."""
Share = Annotated[float, between(0, 1)]
"""A fraction from 0 to 1."""
Momentum = Annotated[float, Range(0, 1, high_open=True)]
"""The coefficient of a running mean, from one step to the next."""
Length = Annotated[int, between(0, 1_000_000)]
"""A number of epochs or steps; 0 for none."""
Count = Annotated[int, between(0, 1_000_000)]
"""A number of things; 0 for none."""
Positive = Annotated[int, between(1, 1_000_000)]
"""A number of things, at least one."""
Width = Annotated[int, between(1, 65_536)]
"""The number of features or channels of a layer."""
Dropout = Annotated[float, Range(0, 1, high_open=True)]
"""The probability that dropout zeroes an input."""


def checked(make: Callable[Arguments, Made]) -> Callable[Arguments, Made]:
    """Decorator: refuse arguments outside the ranges that the signature declares."""

    @wraps(make)
    def within(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Made:
        check(make, inspect.signature(make).bind(*args, **kwargs).arguments)
        return make(*args, **kwargs)

    return within


def configurable(make: Callable[Arguments, Made]) -> Callable[Arguments, Made]:
    """Decorator for a function whose keyword arguments are settings.

    The arguments are checked against their ranges. The function returns a dataclass with the fields `name`, `settings`
    and `made_by`, which are set to the function's name, its arguments and its path.
    """

    @wraps(make)
    def made(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Made:
        given = inspect.signature(make).bind(*args, **kwargs)
        given.apply_defaults()
        check(make, given.arguments)
        found: Any = make(*args, **kwargs)
        path = f"{make.__module__}:{make.__qualname__}"
        named: Made = replace(found, name=make.__name__, settings=given.arguments, made_by=path)
        return named

    return made


def check_fields(record: object) -> None:
    """Refuse a record with a number outside its range; called by `__post_init__`."""
    check(type(record), vars(record))


def check(make: Callable[..., object], arguments: Mapping[str, object]) -> None:
    """Refuse arguments outside the ranges that a function or a record declares."""
    for name, kind in _hints(make).items():
        if name in arguments and (problem := _problem(kind, arguments[name])):
            raise PartitaError(f"{make.__name__}: {name} is {arguments[name]!r}, but must be {problem}.")


def ranges(make: Callable[..., object]) -> dict[str, Range]:
    """The ranges of all numeric parameters of a function, or numeric fields of a record."""
    found = {name: _ranges(kind) for name, kind in _hints(make).items()}
    return {name: each[0] for name, each in found.items() if each}


@cache
def _hints(make: Callable[..., object]) -> dict[str, Any]:
    """The annotations of all parameters that can be numbers."""
    hints = get_type_hints(make, include_extras=True)
    hints.pop("return", None)
    return {name: kind for name, kind in hints.items() if _ranges(kind)}


def _ranges(kind: Any) -> list[Range]:
    """The ranges that a type declares, itself or in its parts."""
    if get_origin(kind) is Annotated:
        return [each for each in kind.__metadata__ if isinstance(each, Range)] or _ranges(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType, tuple):
        return [found for part in get_args(kind) for found in _ranges(part)]
    return [FINITE] if kind in (int, float) else []


def _problem(kind: Any, value: object) -> str | None:
    """What a value of this type must be, if it is not."""
    if isinstance(value, tuple):
        parts = [part for option in _options(kind) if get_origin(option) is tuple for part in get_args(option)]
        # The annotation of `*at: float` is that of each entry.
        problems = [_problem(part, each) for part in parts or [kind] if part is not ... for each in value]
        return next((f"in every entry {problem}" for problem in problems if problem), None)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    numbers = [option for option in _options(kind) if _is_number(option)]
    problems = [_number_problem(option, value) for option in numbers]
    return problems[0] if problems and all(problems) else None


def _options(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _is_number(kind: Any) -> bool:
    return (get_args(kind)[0] if get_origin(kind) is Annotated else kind) in (int, float)


def _number_problem(kind: Any, value: float) -> str | None:
    [allowed] = _ranges(kind)
    whole = (get_args(kind)[0] if get_origin(kind) is Annotated else kind) is int
    if not whole and isinstance(value, int) and abs(value) >= 2**63:
        return f"{allowed}, and a float rather than a whole number of this size"
    if value in allowed and not (whole and not isinstance(value, int)):
        return None
    return f"{'a whole number, ' if whole else ''}{allowed}"
