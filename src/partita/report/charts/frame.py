"""What surrounds the marks of a chart? Axes, ticks, grid lines and labels."""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..markup import Html, tag
from ..scale import Axis, Scale

WIDTH, HEIGHT = 480, 300
TOP, BOTTOM, LEFT, RIGHT = 30, 44, 46, 16
CHARACTER = 9
"""Width of a character of the charts' font, in the mean, on a phone, where it is larger than elsewhere."""
WIDE = frozenset("mwMW%@")
COLOURS = 8
ROWS = (30, 40, 54)
"""The height of a row with a name in one, two or three lines."""
LINE = 15
NAME = 180
"""The width of a name beside a row, at most."""
SMALL = (240, 170)


@dataclass(frozen=True)
class Plot:
    """The area of a chart in which marks are drawn."""

    x: Scale
    y: Scale
    width: float = WIDTH
    height: float = HEIGHT


def plot(x: Axis, y: Axis, *, right: float = RIGHT, small: bool = False) -> Plot:
    """`small` is for one of many charts of the same kind, side by side."""
    width, height = SMALL if small else (WIDTH, HEIGHT)
    return Plot(Scale(x, LEFT, width - right), Scale(y, height - BOTTOM, TOP), width, height)


def framed(area: Plot, label: str, *marks: Html) -> Html:
    """A chart with both axes. The vertical axis is named at the top, where it can be read without tilting the head."""
    x, y = area.x, area.y
    return svg(
        label,
        area.height,
        *(_line(x.start, y(tick), x.end, y(tick), "grid") for tick in y.axis.ticks),
        *(text(x.start - 6, y(tick) + 4, y.axis.text(tick), anchor="end") for tick in y.axis.ticks),
        *across(x, y.start),
        text(2, 14, y.axis.label, class_="title"),
        *marks,
        width=area.width,
    )


def across(x: Scale, bottom: float) -> list[Html]:
    """The horizontal axis with its ticks and name."""
    return [
        _line(x.start, bottom, x.end, bottom, "axis"),
        *(_line(x(tick), bottom, x(tick), bottom + 4, "axis") for tick in x.axis.ticks),
        *(text(x(tick), bottom + 18, x.axis.text(tick), anchor="middle") for tick in x.axis.ticks),
        text((x.start + x.end) / 2, bottom + 37, x.axis.label, anchor="middle", class_="title"),
    ]


@dataclass(frozen=True)
class Rows:
    """A chart of one row for each name, below each other."""

    x: Scale
    height: float
    row: float
    frame: tuple[Html, ...]

    def middle(self, row: int) -> float:
        return 10 + self.row * (row + 0.5)


def rows(x: Axis, names: Sequence[str], *, marked: float | None = None) -> Rows:
    """The frame of such a chart; `marked` is a value with a line of its own, such as no change."""
    lines_of = [wrapped(name, NAME) for name in names]
    left = max(len(line) for lines in lines_of for line in lines) * CHARACTER + 16
    row_height = ROWS[max(map(len, lines_of)) - 1]
    height = 10 + row_height * len(names) + BOTTOM
    scale = Scale(x, left, WIDTH - RIGHT)
    bottom = height - BOTTOM
    lines = [_line(scale(tick), 10, scale(tick), bottom, "grid") for tick in x.ticks]
    if marked is not None and x.low <= marked <= x.high:
        lines.append(_line(scale(marked), 10, scale(marked), bottom, "axis"))
    titles = [
        # A dot at the start of the axis does not touch them.
        text(left - 12, 10 + row_height * (row + 0.5) + 4 + LINE * (place - (len(lines) - 1) / 2), line, anchor="end")
        for row, lines in enumerate(lines_of)
        for place, line in enumerate(lines)
    ]
    return Rows(scale, height, row_height, (*lines, *across(scale, bottom), *titles))


def svg(label: str, height: float, *content: Html, width: float = WIDTH) -> Html:
    """An SVG element that can have the focus; the arrow keys then go from mark to mark."""
    return tag(
        "svg",
        *content,
        viewBox=f"0 0 {width:g} {height:g}",
        class_="chart",
        role="img",
        aria_label=label,
        tabindex="0",
    )


def text(x: float, y: float, content: str, *, anchor: str | None = None, class_: str | None = None) -> Html:
    return tag("text", content, x=x, y=y, text_anchor=anchor, class_=class_)


def room(name: str) -> float:
    """How much room a name takes at most, in bold; an m is wider than other letters."""
    return CHARACTER * (len(name) + sum(letter in WIDE for letter in name) / 2)


def shortened(name: str, width: float) -> str:
    """Without its middle, if it is too long: names of clients and settings often differ at their ends alone.

    >>> shortened("Hospital of the Holy Spirit, ward 6", 130)
    'Hospita…ward 6'
    """
    return _middle(name, max(int(width / CHARACTER), 3))


def wrapped(name: str, width: float) -> list[str]:
    """A name in two lines or three, if it is too long for one; what is longer still is shortened in its middle.

    >>> wrapped("fedper optimizer.lr=0.01", 170)
    ['fedper', 'optimizer.lr=0.01']
    >>> wrapped("fedper optimizer.lr=0.01, fine-tuned", 170)
    ['fedper', 'optimizer.lr=0.01,', 'fine-tuned']
    """
    most = max(int(width / CHARACTER), 3)
    if len(name) <= most:
        return [name]
    places = [place for place, sign in enumerate(name) if sign in " ,"] or [most - 1]
    at = min(places, key=lambda place: abs(place - len(name) / 2)) + 1
    halves = [name[:at].strip(), name[at:].strip()]
    if max(map(len, halves)) > most:
        thirds = textwrap.wrap(name, most, break_long_words=False, break_on_hyphens=False)
        if len(thirds) == len(ROWS) and max(map(len, thirds)) <= most:
            return thirds
    return [_middle(half, most) for half in halves]


def _middle(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: most // 2]}…{name[-(most - most // 2 - 1) :]}"


def colour(number: int) -> str:
    """The class of a colour; after the last one they repeat."""
    return f"c{number % COLOURS}"


def path(points: Iterable[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Html:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)
