"""How sure is a value? A dot with a line to both sides, one row for each name."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..markup import Html, tag
from ..scale import Axis
from .frame import Rows, rows, svg


@dataclass(frozen=True)
class Interval:
    name: str
    middle: float
    low: float
    high: float
    class_: str
    tip: str
    marked: float | None = None
    """A further value that gets a mark, such as that of the worst clients."""


def intervals(label: str, x: Axis, several: Sequence[Interval], *, marked: float | None = None) -> Html:
    area = rows(x, [each.name for each in several], marked=marked)
    marks = [mark for row, each in enumerate(several) for mark in _marks(area, row, each)]
    return svg(label, area.height, *area.frame, *marks)


def _marks(area: Rows, row: int, each: Interval) -> list[Html]:
    height = area.middle(row)
    axis = area.x.axis
    low, high = (area.x(min(max(end, axis.low), axis.high)) for end in (each.low, each.high))
    found = [tag("line", x1=low, x2=high, y1=height, y2=height, class_=f"whisker {each.class_}")]
    if each.marked is not None:
        at = area.x(min(max(each.marked, axis.low), axis.high))
        found.append(tag("line", x1=at, x2=at, y1=height - 6, y2=height + 6, class_=f"tick {each.class_}"))
    dot = tag("circle", cx=area.x(each.middle), cy=height, r=5.5, class_=f"dot {each.class_}", data_tip=each.tip)
    return [*found, dot]
