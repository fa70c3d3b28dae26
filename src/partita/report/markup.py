"""How is HTML put together? From text that is escaped; only what was made here goes in as it is."""

from collections.abc import Iterable
from html import escape

VOID = frozenset({"meta", "br"})


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *children: str, **attributes: object) -> Html:
    """An element. Attributes that are None are left out; `data_tip` is written data-tip, and `class_` class.

    >>> tag("p", "1 < 2", class_="note")
    '<p class="note">1 &lt; 2</p>'
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_written(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = join(children)
    return Html(f"<{name}{given}>" if name in VOID else f"<{name}{given}>{inside}</{name}>")


def join(parts: Iterable[str]) -> Html:
    return Html("".join(part if isinstance(part, Html) else escape(part, quote=False) for part in parts))


def _written(value: object) -> str:
    """Coordinates need no more than a hundredth of a pixel."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
