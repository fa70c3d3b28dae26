"""How is something made odd? By a value that nobody would write at a random place, or by damaged bytes."""

import json
import random
import warnings
from collections.abc import Callable
from typing import Any

from partita.errors import PartitaError

from .tally import Tally

ODD: tuple[Any, ...] = (
    *(-1, -0.5, 0, 1.5, 2, 10**30, 10**400, 1e308, float("nan"), float("inf"), float("-inf"), True, None),
    *("", "x", "nan", "1e400", "[red]", "../../etc", "/etc/passwd", "\x1b[31m", "\0", "os:system", "head & (", "=1+1"),
    *([], [1], [[]], ["x", None], {}, {"name": "sgd", "lr": -1}, {"name": 5}, {"lr": {}}, {"name": "os:system"}),
)


def set_somewhere_(value: Any, draw: random.Random) -> None:
    """Replace or remove something at a random depth of lists and dictionaries."""
    key = draw.choice(list(value) if isinstance(value, dict) else range(len(value)))
    if isinstance(value[key], dict | list) and value[key] and draw.random() < 0.8:
        set_somewhere_(value[key], draw)
    elif draw.random() < 0.2:
        del value[key]
    else:
        value[key] = draw.choice((*ODD, draw.randrange(100)))


def damaged(valid: bytes, draw: random.Random) -> bytes:
    """The bytes with a few changed, lost or added."""
    content = bytearray(valid)
    for _ in range(draw.randrange(1, 6)):
        at = draw.randrange(len(content))
        match draw.randrange(4):
            case 0:
                content[at] = draw.randrange(256)
            case 1:
                del content[at : at + draw.randrange(1, 9)]
            case 2:
                del content[at:]
            case _:
                content[at:at] = draw.randbytes(draw.randrange(1, 9))
        content = content or bytearray(b".")
    return bytes(content)


def count(tally: Tally, what: str, work: Callable[..., object], *given: Any, kind: str = "") -> None:
    """Whether work on something odd is done, or refused in one line; all else is broken."""
    before = f"{kind}: " if kind else ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            work(*given)
    except PartitaError as problem:
        if "\n" in str(problem).strip():
            tally.broken.append(f"{before}{what}: an error of several lines")
        else:
            tally.held[f"{before}refused in one line"] += 1
    except Exception as problem:
        tally.broken.append(f"{before}{problem!r}"[:500] + f" of {what}")
    else:
        tally.held[f"{before}accepted"] += 1


def as_toml(value: Any) -> str:
    """A value as TOML has it in one line; what TOML cannot hold is left out."""
    if isinstance(value, dict):
        pairs = (f"{json.dumps(str(key))} = {as_toml(each)}" for key, each in value.items() if each is not None)
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(as_toml(each) for each in value if each is not None) + "]"
    if isinstance(value, float):
        return str(value)
    return json.dumps(value)


def toml_file(settings: dict[str, Any]) -> str:
    return "".join(f"{json.dumps(key)} = {as_toml(value)}\n" for key, value in settings.items() if value is not None)
