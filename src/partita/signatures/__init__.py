"""What does a signature say of settings? Their names, types and ranges, and that what is made remembers its arguments.

A range stands beside the type of a parameter or field, `lr: Annotated[float, AT_LEAST_0]`, and is checked whenever the
function is called or the record is made. A number without a range must still be finite.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache, wraps
from typing import Annotated, Any, ParamSpec, TypeVar, get_type_hints

from ..errors import ArgumentError, PartitaError, unknown
from .kinds import options_of, parse_of, problem_of, ranges_of, shown
from .ranges import FINITE as FINITE, Range as Range

Arguments = ParamSpec("Arguments")
Made = TypeVar("Made")


def at_least(low: float) -> Range:
    return Range(low)


def above(low: float) -> Range:
    return Range(low, low_open=True)


def between(low: float, high: float) -> Range:
    return Range(low, high)


Rate = Annotated[float, at_least(0)]
"""A learning rate, or a factor of one. With 0 nothing moves; one that is too large makes the loss diverge."""
Strength = Annotated[float, at_least(0)]
"""What a term of a loss is multiplied with."""
Share = Annotated[float, between(0, 1)]
"""A part of a whole."""
Momentum = Annotated[float, Range(0, 1, high_open=True)]
"""How much of a running mean is kept from one step to the next."""
Length = Annotated[int, between(0, 1_000_000)]
"""So many epochs or steps; 0 for none."""
Count = Annotated[int, between(0, 1_000_000)]
"""So many of something, or none."""
Positive = Annotated[int, between(1, 1_000_000)]
"""So many of something, at least one."""
Width = Annotated[int, between(1, 65_536)]
"""Features or channels of a layer."""
Dropout = Annotated[float, Range(0, 1, high_open=True)]
"""The part of what a layer receives that is left out at random."""


def checked(make: Callable[Arguments, Made]) -> Callable[Arguments, Made]:
    """A function that refuses arguments that are not of the names, types and ranges of its signature."""

    @wraps(make)
    def within(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Made:
        given = arguments_of(make, args, kwargs)
        return make(*given.args, **given.kwargs)

    return within


def named_arguments(make: Callable[Arguments, Made]) -> Callable[Arguments, Made]:
    """A function that names the nearest argument where one is misspelt, and says what is missing."""

    @wraps(make)
    def within(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Made:
        bound(make, args, kwargs)
        return make(*args, **kwargs)

    return within


def configurable(make: Callable[Arguments, Made]) -> Callable[Arguments, Made]:
    """A function whose keyword arguments are settings: in their ranges, and remembered by what it makes.

    What it makes is a record with the fields `name` (that of the function), `settings` and `made_by` (its path).
    """

    @wraps(make)
    def made(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Made:
        given = arguments_of(make, args, kwargs)
        found: Any = make(*given.args, **given.kwargs)
        given.apply_defaults()
        path = f"{make.__module__}:{make.__qualname__}"
        named: Made = replace(found, name=make.__name__, settings=given.arguments, made_by=path)
        return named

    return made


def arguments_of(
    make: Callable[..., object], args: Iterable[object], kwargs: Mapping[str, object]
) -> inspect.BoundArguments:
    """The arguments of a call by name, checked; text becomes what it means where a type can `parse` it."""
    given = bound(make, args, kwargs)
    given.arguments.update(_parsed(make, given.arguments))
    check(make, given.arguments)
    return given


def bound(make: Callable[..., object], args: Iterable[object], kwargs: Mapping[str, object]) -> inspect.BoundArguments:
    """The arguments of a call by name; one that the function does not take is refused, with the nearest that is."""
    signature = inspect.signature(make)
    known = [name for name, each in signature.parameters.items() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    if len(known) == len(signature.parameters):
        check_names(make.__name__, kwargs, known)
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as problem:
        raise ArgumentError(f"{make.__name__}: {problem}. Name arguments: {', '.join(known)}.") from None


def check_names(what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Refuses a name that is not known, with the nearest that is."""
    for name in given:
        if name not in known:
            raise ArgumentError(f"{what}: {unknown('argument', name, known)}")


def check_fields(record: object) -> None:
    """Refuses a record with a value out of its type or range; to be called by `__post_init__`.

    Text becomes what it means where the type of a field can `parse` it.
    """
    for name, value in _parsed(type(record), vars(record)).items():
        object.__setattr__(record, name, value)
    check(type(record), vars(record))


def named_fields(record: type[Made]) -> type[Made]:
    """A record whose constructor names the nearest field where one is misspelt."""
    make = record.__init__

    @wraps(make)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        bound(record, args, kwargs)
        make(self, *args, **kwargs)

    record.__init__ = init  # type: ignore[method-assign]
    return record


def check(make: Callable[..., object], arguments: Mapping[str, object]) -> None:
    """Refuses arguments out of the types and ranges that a function or a record declares."""
    for name, kind in _hints(make).items():
        if name in arguments and (problem := problem_of(kind, arguments[name])):
            raise PartitaError(f"{make.__name__}: {name} is {shown(arguments[name])}, but must be {problem}.")


def ranges(make: Callable[..., object]) -> dict[str, Range]:
    """The ranges of all numbers among the parameters of a function, or the fields of a record."""
    found = {name: ranges_of(kind) for name, kind in _hints(make).items()}
    return {name: each[0] for name, each in found.items() if each}


def _parsed(make: Callable[..., object], arguments: Mapping[str, object]) -> dict[str, object]:
    texts = {name: value for name, value in arguments.items() if isinstance(value, str)}
    hints = _hints(make) if texts else {}
    parsers = {name: parse_of(options_of(hints[name])) for name in texts if name in hints}
    return {name: parse(texts[name]) for name, parse in parsers.items() if parse}


@cache
def _hints(make: Callable[..., object]) -> dict[str, Any]:
    """Parameters with all that is said of their types."""
    hints = get_type_hints(make, include_extras=True)
    hints.pop("return", None)
    return hints
