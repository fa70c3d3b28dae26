"""How does something change? Lines over rounds or epochs, named at their ends."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...evaluation.figures import Line
from ..markup import Html, tag
from ..scale import Axis
from .frame import COLOURS, RIGHT, Plot, colour, framed, path, plot, room, shortened, text

DASHES = (None, "6 3", "2 3", "9 3 2 3")
APART = 15
MOST_BESIDE, LONGEST_BESIDE = 10, 20
MOST_BANDS = 5
"""Bands of more lines cover each other, and nothing could be read."""
MANY = 15
"""Lines with more points than this have small marks."""


@dataclass(frozen=True)
class Level:
    """A value to compare with, all across the chart."""

    name: str
    value: float
    said: str
    """The value with its unit."""


def lines(
    label: str, x: Axis, y: Axis, series: Sequence[Line], levels: Sequence[Level] = (), *, small: bool = False
) -> Html:
    """`small` is for one of many charts of the same kind, which have one legend."""
    names = [*(each.name for each in series), *(each.name for each in levels)]
    beside = not small and len(names) > 1 and fits_beside(names)
    right = max(map(room, names)) + 14 if beside else RIGHT
    area = plot(x, y, right=right, small=small)
    marks = [*(_level(area, each) for each in levels)]
    marks += [_band(area, each) for each in series if any(each.spread)] if has_bands(series) else []
    marks += [_stroke(area, each) for each in series]
    marks += [_dot(area, each, place) for each in series for place in range(len(each.points))]
    if beside:
        marks += _names(area, series, levels, right)
    return framed(area, label, *marks)


def has_bands(series: Sequence[Line]) -> bool:
    """Whether spreads are drawn as bands; where they are not, tips and tables have them."""
    return len(series) <= MOST_BANDS and any(any(each.spread) for each in series)


def fits_beside(names: Sequence[str]) -> bool:
    """Whether names can stand at the ends of their lines; else they are in a legend."""
    return len(names) <= MOST_BESIDE and max(map(len, names)) <= LONGEST_BESIDE


def legend(series: Sequence[Line], levels: Sequence[Level] = (), *, small: bool = False) -> Html | None:
    """Samples of lines and levels with their names, where these do not stand beside them."""
    names = [*(each.name for each in series), *(each.name for each in levels)]
    if len(names) < 2 or (fits_beside(names) and not small):
        return None
    drawn = [
        (
            tag("path", d="M1 6H27", class_=f"line {colour(each.number)}", stroke_dasharray=dashes(each.number)),
            each.name,
        )
        for each in series
    ]
    # All levels look alike: their values tell which is which.
    drawn += [(tag("path", d="M1 6H27", class_="level"), f"{each.name}, {each.said}") for each in levels]
    items = (
        tag("li", tag("svg", mark, viewBox="0 0 28 12", class_="sample", aria_hidden="true"), name)
        for mark, name in drawn
    )
    return tag("ul", *items, class_="key")


def dashes(number: int) -> str | None:
    """Neighbouring methods differ in dashes as well as in colour."""
    return DASHES[(number + number // COLOURS) % len(DASHES)]


def _level(area: Plot, level: Level) -> Html:
    height = area.y(level.value)
    tip = f"{level.name}: {level.said}"
    return tag("line", x1=area.x.start, x2=area.x.end, y1=height, y2=height, class_="level", data_tip=tip)


def _band(area: Plot, line: Line) -> Html:
    y = area.y
    edge = [
        (area.x(at), y(min(max(value + sign * spread, y.axis.low), y.axis.high)))
        for sign in (1, -1)
        for (at, value), spread in list(zip(line.points, line.spread, strict=True))[::sign]
    ]
    return tag("path", d=path(edge) + "Z", class_=f"band {colour(line.number)}")


def _stroke(area: Plot, line: Line) -> Html:
    points = [(area.x(at), area.y(value)) for at, value in line.points]
    return tag("path", d=path(points), class_=f"line {colour(line.number)}", stroke_dasharray=dashes(line.number))


def _dot(area: Plot, line: Line, place: int) -> Html:
    at, value = line.points[place]
    said = f"{line.name}, {area.x.axis.label} {area.x.axis.say(at)}: {area.y.axis.say(value)}"
    if any(line.spread):
        said += f" ± {area.y.axis.say(line.spread[place])}"
    radius = 3 if len(line.points) <= MANY else 1.8
    return tag("circle", cx=area.x(at), cy=area.y(value), r=radius, class_=f"dot {colour(line.number)}", data_tip=said)


def _names(area: Plot, series: Sequence[Line], levels: Sequence[Level], right: float) -> list[Html]:
    """Beside the ends of lines, moved apart where they would overlap."""
    wanted = [(area.y(each.points[-1][1]), each.name, f"end {colour(each.number)}") for each in series]
    wanted += [(area.y(each.value), each.name, "end quiet") for each in levels]
    wanted.sort(key=lambda each: each[0])
    heights = apart([height for height, _, _ in wanted], area.y.end, area.y.start)
    return [
        text(area.x.end + 8, height + 4, shortened(name, right - 10), class_=class_)
        for height, (_, name, class_) in zip(heights, wanted, strict=True)
    ]


def apart(heights: Sequence[float], top: float, bottom: float) -> list[float]:
    """Sorted heights, each at least a line of text below the one before, and within the bounds where they fit."""
    found: list[float] = []
    for height in heights:
        found.append(max(height, found[-1] + APART if found else top))
    limit = bottom
    for place in reversed(range(len(found))):
        found[place] = min(found[place], limit)
        limit = found[place] - APART
    return found
