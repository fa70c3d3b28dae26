"""How do two values go together? A point for each client or sample."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..markup import Html, tag
from ..scale import Axis
from .frame import CHARACTER, COLOURS, WIDTH, Plot, colour, framed, path, plot, shortened, svg, text

SQUARE, LINE = 320, 18
NAME = 130
"""The width of a name in a legend, at most."""


@dataclass(frozen=True)
class Mark:
    x: float
    y: float
    number: int
    """Decides the colour, and beyond the last colour the shape."""
    tip: str


def scatter(label: str, x: Axis, y: Axis, points: Sequence[Mark], *, small: bool = False) -> Html:
    area = plot(x, y, small=small)
    marks = [_shape(area.x(each.x), area.y(each.y), each, 2.6 if small else 3.6) for each in points]
    if y.low < 0 < y.high:
        marks.insert(0, _zero(area))
    return framed(area, label, *marks)


def cloud(label: str, points: Sequence[Mark], names: Sequence[str]) -> Html:
    """Points of which only nearness means something, with a legend of their groups."""
    across, down = [each.x for each in points], [each.y for each in points]
    shown = [shortened(name, NAME) for name in names[: SQUARE // LINE - 1]]
    room = WIDTH - 30 - CHARACTER * max(map(len, shown))
    factor = min((room - 20) / (max(across) - min(across) or 1.0), (SQUARE - 20) / (max(down) - min(down) or 1.0))
    left, top = room / 2 - factor * (max(across) + min(across)) / 2, SQUARE / 2 - factor * (max(down) + min(down)) / 2
    marks = [_shape(left + factor * each.x, top + factor * each.y, each, 3.2) for each in points]
    for number, name in enumerate(shown):
        height = LINE * (number + 0.7)
        marks.append(_shape(room + 12, height, Mark(0, 0, number, ""), 4))
        marks.append(text(room + 24, height + 4, name))
    if len(names) > len(shown):
        marks.append(text(room + 24, LINE * (len(shown) + 0.7) + 4, f"+ {len(names) - len(shown)}"))
    return svg(label, SQUARE, *marks)


def _zero(area: Plot) -> Html:
    return tag("line", x1=area.x.start, x2=area.x.end, y1=area.y(0), y2=area.y(0), class_="axis")


def _shape(x: float, y: float, point: Mark, radius: float) -> Html:
    class_ = f"point {colour(point.number)}"
    kind = point.number // COLOURS % 3
    if kind == 0:
        return tag("circle", cx=round(x, 1), cy=round(y, 1), r=radius, class_=class_, data_tip=point.tip or None)
    if kind == 1:
        corners = [
            (x - radius, y - radius),
            (x + radius, y - radius),
            (x + radius, y + radius),
            (x - radius, y + radius),
        ]
    else:
        corners = [(x, y - 1.4 * radius), (x + 1.3 * radius, y + radius), (x - 1.3 * radius, y + radius)]
    return tag("path", d=path(corners) + "Z", class_=class_, data_tip=point.tip or None)
