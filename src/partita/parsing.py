"""How are JSON and TOML of others parsed? By the standard library; whatever it cannot take is a ValueError."""

import json
import re
import sys
from collections.abc import Iterable
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEEPEST = 64
"""Levels of lists and tables inside each other, since functions that walk through a value call themselves for each."""
_NESTS = (dict, list)
"""A pair, which is checked in half the time of `dict | list`."""
_TEXTS = re.compile(r""""{3}(?:\\.|[^\\])*?"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*""", re.DOTALL)
"""Strings and comments of TOML. What is between them and has more dots than a number is a key."""
_KEYS = re.compile(r"[^\w\-. \t]")


def parse_json(text: str | bytes) -> Any:
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep") from None
    _need_shallow(found)
    return found


def parse_toml(text: str) -> dict[str, Any]:
    # The library takes time and memory with the square of the length of a dotted key.
    if any(key.count(".") > DEEPEST for key in _KEYS.split(_TEXTS.sub("x", text))):
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
    try:
        found = tomllib.loads(text)
    except RecursionError:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep") from None
    _need_shallow(found)
    return found


def _need_shallow(value: Any) -> None:
    level = _nested([value])
    for _ in range(DEEPEST):
        if not level:
            return
        level = _nested(inner for each in level for inner in (each.values() if isinstance(each, dict) else each))
    if level:
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")


def _nested(values: Iterable[Any]) -> list[Any]:
    return [each for each in values if isinstance(each, _NESTS)]
