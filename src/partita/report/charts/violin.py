"""How are values spread? A smoothed outline with quartiles, one row for each name."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...evaluation.density import density
from ..markup import Html, tag
from ..scale import Axis
from .frame import Rows, colour, path, rows, svg

FEW = 5
"""An outline of fewer values than this would pretend to know more than there is."""
STEPS = 60


@dataclass(frozen=True)
class Violin:
    name: str
    values: Sequence[float]
    number: int
    """Decides the colour."""


def violins(label: str, x: Axis, several: Sequence[Violin]) -> Html:
    area = rows(x, [each.name for each in several], marked=0)
    marks = [mark for row, each in enumerate(several) for mark in _marks(area, row, each)]
    return svg(label, area.height, *area.frame, *marks)


def _marks(area: Rows, row: int, each: Violin) -> list[Html]:
    height, x = area.middle(row), area.x
    found = density(each.values, STEPS)
    low, middle, high = found.lower_quartile, found.median, found.upper_quartile
    say = x.axis.say
    said = f"{each.name}: median {say(middle)}, middle half {say(low)} to {say(high)}"
    marks = [
        tag("line", x1=x(low), x2=x(high), y1=height, y2=height, class_="quartiles"),
        tag("circle", cx=x(middle), cy=height, r=4, class_="median", data_tip=said),
    ]
    if len(each.values) < FEW or found.low == found.high:
        dots = (
            tag("circle", cx=x(value), cy=height, r=3, class_=f"dot {colour(each.number)}") for value in each.values
        )
        return [*dots, *marks]
    half = [0.46 * area.row * each / max(found.density) for each in found.density]
    upper = [(x(value), height - size) for value, size in zip(found.at, half, strict=True)]
    lower = [(x(value), height + size) for value, size in zip(found.at, half, strict=True)]
    outline = tag("path", d=path([*upper, *lower[::-1]]) + "Z", class_=f"violin {colour(each.number)}", data_tip=said)
    return [outline, *marks]
