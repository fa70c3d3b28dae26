"""What does a signature say of settings? Their names, types and ranges, and that what is made remembers its arguments.

A range is part of a parameter's or field's type, `lr: Annotated[float, at_least(0)]`. It is checked whenever the
function is called or the record is made. A number without a range must still be finite.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import cache, wraps
from types import GenericAlias
from typing import Annotated, Any, ParamSpec, TypeVar, get_type_hints

from ...errors import ArgumentError, PartitaError, unknown
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


Rate = Annotated[float, between(0, 1_000)]
"""A learning rate, or a factor of one. With 0, nothing is trained; above 1,000, a training ends in nonsense, and some
without an error."""
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
    """Decorator for a function whose keyword arguments are settings.

    The arguments are checked against their ranges. The function returns a dataclass with the fields `name`, `settings`
    and `made_by`, which are set to the function's name, its arguments and its path.
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

    # A decorator of a class replaces its constructor; types of methods do not allow that.
    record.__init__ = init  # type: ignore[method-assign]
    return record


def check(make: Callable[..., object], arguments: Mapping[str, object]) -> None:
    """Refuses arguments out of the types and ranges that a function or a record declares."""
    for name, kind in _hints(make).items():
        if name in arguments and (problem := problem_of(kind, arguments[name])):
            raise PartitaError(f"{make.__name__}: {name} is {shown(arguments[name])}, but must be {problem}.")


def ranges(make: Callable[..., object]) -> dict[str, Range]:
    """The ranges of all numeric parameters of a function, or numeric fields of a record."""
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
    for name, parameter in inspect.signature(make).parameters.items():
        if name in hints and parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            # The annotation of `*at: float` is that of each entry.
            hints[name] = GenericAlias(tuple, (hints[name], ...))
    return hints
