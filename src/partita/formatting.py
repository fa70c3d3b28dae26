"""How are numbers written for people? With a unit and a few significant digits."""

import re
from collections.abc import Sequence

CONTROL = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\N{LEFT-TO-RIGHT EMBEDDING}-\N{RIGHT-TO-LEFT OVERRIDE}"
    "\N{LEFT-TO-RIGHT ISOLATE}-\N{POP DIRECTIONAL ISOLATE}\N{ZERO WIDTH NO-BREAK SPACE}]"
)
"""Characters that a terminal obeys or hides, but for the end of a line."""
MINUS = "\N{MINUS SIGN}"
NONE = "\N{EN DASH}"
"""Shown in a cell without a value."""


def signed(value: float, digits: int) -> str:
    """A number with its sign; one that rounds to zero has no sign."""
    rounded = round(value, digits)
    return f"{rounded + 0.0:.{digits}f}" if rounded == 0 else f"{rounded:+.{digits}f}".replace("-", MINUS)


def plain(value: float) -> str:
    """A number as an axis shows it: 0.25, 20, 1,500.

    >>> [plain(number) for number in (0.30000000000000004, 20.0, 1500)]
    ['0.3', '20', '1,500']
    """
    return f"{value:,.4g}".replace("-", MINUS) if abs(value) < 1e4 else f"{value:,.0f}".replace("-", MINUS)


def byte_unit(largest: float) -> tuple[str, float]:
    """The unit for numbers of bytes up to the largest, and how many bytes it is.

    >>> byte_unit(2.5e6), byte_unit(0)
    (('MB', 1000000.0), ('B', 1.0))
    """
    units = (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3))
    return next(((unit, factor) for unit, factor in units if largest >= factor), ("B", 1.0))


def byte_text(count: float) -> str:
    """A number of bytes in the unit that fits.

    >>> byte_text(0), byte_text(1234), byte_text(5.6e9)
    ('0 B', '1.23 kB', '5.6 GB')
    """
    unit, factor = byte_unit(count)
    return f"{count:.0f} B" if unit == "B" else f"{count / factor:.3g} {unit}"


def duration(seconds: float) -> str:
    """
    >>> duration(0.012), duration(75), duration(7500)
    ('0.012 s', '1 min 15 s', '2 h 5 min')
    """
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def amount(count: int, unit: str) -> str:
    """
    >>> amount(1, "client"), amount(1200, "client")
    ('1 client', '1,200 clients')
    """
    return f"{count:,} {unit}" if count == 1 else f"{count:,} {unit}s"


def listed(words: Sequence[str]) -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def visible(text: str) -> str:
    """Text for a terminal: control characters, which could move the cursor or rewrite what was shown, become signs.

    >>> visible("a\\x1b[31mb")
    'a\N{SYMBOL FOR ESCAPE}[31mb'
    """
    return CONTROL.sub(lambda found: _sign(found[0]), text)


def _sign(control: str) -> str:
    return chr(0x2400 + ord(control)) if ord(control) < 0x20 else "\N{REPLACEMENT CHARACTER}"
