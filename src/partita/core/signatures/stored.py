"""Does a value that was read from JSON have a type?"""

import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict


def fits(value: object, kind: Any) -> bool:
    """Whether a value has a type: plain ones, lists, dictionaries, and those whose fields have names.

    >>> fits({"a": 1}, dict[str, int]), fits([None], list[str])
    (True, False)
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, each) for each in inner)
    if origin is Literal:
        return value in inner
    if origin is list:
        return isinstance(value, list) and all(fits(each, inner[0]) for each in value)
    if origin is dict:
        return isinstance(value, dict) and all(fits(each, inner[1]) for each in value.values())
    if is_typeddict(kind):
        return isinstance(value, dict) and misfit(value, kind) is None
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def misfit(value: dict[str, Any], kind: Any) -> str | None:
    """The first field that a dictionary lacks, or has with another type; it may have more."""
    for name, wanted in get_type_hints(kind).items():
        if name in value:
            if not fits(value[name], wanted):
                return name
        elif name in kind.__required_keys__:
            return name
    return None
