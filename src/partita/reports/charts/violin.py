"""How are values spread? A smoothed outline with quartiles, one row for each name."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..markup import Html, tag
from ..scale import Axis
from .frame import ROW, Rows, colour, path, rows, svg

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


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    return float(low), float(middle), float(high)


def density(values: Sequence[float], at: Sequence[float]) -> list[float]:
    """The Gaussian estimate with Silverman's width, in units of its largest value."""
    known = np.asarray(values)
    low, _, high = quartiles(values)
    spread = min(filter(None, (float(known.std()), (high - low) / 1.34)), default=0.0)
    span = at[-1] - at[0]
    width = max(0.9 * spread * len(known) ** -0.2, span / 200)
    heights = np.exp(-0.5 * ((np.asarray(at)[:, None] - known) / width) ** 2).sum(1)
    return [float(height) for height in heights / heights.max()]


def _marks(area: Rows, row: int, each: Violin) -> list[Html]:
    height, x = area.middle(row), area.x
    low, middle, high = quartiles(each.values)
    say = x.axis.say
    said = f"{each.name}: median {say(middle)}, middle half {say(low)} to {say(high)}"
    marks = [
        tag("line", x1=x(low), x2=x(high), y1=height, y2=height, class_="quartiles"),
        tag("circle", cx=x(middle), cy=height, r=4, class_="median", data_tip=said),
    ]
    ends = min(each.values), max(each.values)
    if len(each.values) < FEW or ends[0] == ends[1]:
        dots = (
            tag("circle", cx=x(value), cy=height, r=3, class_=f"dot {colour(each.number)}") for value in each.values
        )
        return [*dots, *marks]
    at = np.linspace(*ends, STEPS).tolist()
    half = [0.46 * ROW * share for share in density(each.values, at)]
    upper = [(x(value), height - size) for value, size in zip(at, half, strict=True)]
    lower = [(x(value), height + size) for value, size in zip(at, half, strict=True)]
    outline = tag("path", d=path([*upper, *lower[::-1]]) + "Z", class_=f"violin {colour(each.number)}", data_tip=said)
    return [outline, *marks]
