"""What are the parts of a whole? Stacked horizontal bars, one row for each name."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..markup import Html, join, tag
from ..scale import Axis
from .frame import rows, svg


@dataclass(frozen=True)
class Part:
    value: float
    class_: str
    """A colour or a pattern of the style sheet."""
    tip: str


def bars(label: str, x: Axis, names: Sequence[str], parts: Sequence[Sequence[Part]]) -> Html:
    area = rows(x, names)
    marks = []
    for row, several in enumerate(parts):
        before = 0.0
        for part in several:
            start, end = area.x(before), area.x(before + part.value)
            before += part.value
            if part.value > 0:
                marks.append(
                    tag(
                        "rect",
                        x=start,
                        y=area.middle(row) - 9,
                        width=max(end - start - 1, 0.5),
                        height=18,
                        class_=f"bar {part.class_}",
                        data_tip=part.tip,
                    )
                )
    return svg(label, area.height, *area.frame, join(marks))
