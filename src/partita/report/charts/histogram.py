"""How often does each value occur? Bars over bins, with another colour below zero."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..markup import Html, tag
from ..scale import Axis, count_axis, ticks
from .frame import framed, plot

BINS, FEWEST = 24, 6


@dataclass(frozen=True)
class Bin:
    low: float
    high: float
    count: int


def bins(
    values: Sequence[float],
    most: int | None = None,
    span: tuple[float, float] | None = None,
    *,
    whole: bool = False,
) -> list[Bin]:
    """Bins of equal width that end at round numbers, so that zero is never inside a bin; the upper end is excluded.

    `span` is what the bins cover beside the values, so that several histograms have the same bins. With `whole`, they
    end at whole numbers.

    >>> [(each.low, each.count) for each in bins([-1, 0, 0.5, 1.5], 3)]
    [(-1.0, 1), (0.0, 2), (1.0, 1)]
    """
    # Few values in many bins would be a comb.
    limit = most or min(max(round(2 * len(values) ** 0.5), FEWEST), BINS)
    covered = [*values, *(span or ())]
    edges = ticks(min(covered), max(covered), limit + 1, whole=whole)
    step = edges[1] - edges[0]
    # Rounded, since 0.3 / 0.1 is a little below 3.
    places = [math.floor(round((value - edges[0]) / step, 9)) for value in values]
    # Who neither gains nor loses must not be among those who lose, even where nobody gains.
    count = max(max(places) + 1, len(edges) - 1)
    return [Bin(edges[0] + step * place, edges[0] + step * (place + 1), places.count(place)) for place in range(count)]


def histogram(
    label: str, x: Axis, found: Sequence[Bin], what: str, *, signed: bool = True, y: Axis | None = None
) -> Html:
    """A histogram of counts of `what`; with `signed`, bins below zero have the colour of losses.

    With an axis of counts, which others have too, it is a small one among several.
    """
    area = plot(x, y or count_axis(what, (each.count for each in found)), small=y is not None)
    marks = [
        tag(
            "rect",
            x=area.x(each.low) + 0.5,
            y=area.y(each.count),
            width=max(area.x(each.high) - area.x(each.low) - 1, 1.0),
            height=area.y(0) - area.y(each.count),
            class_="bar hurt" if signed and each.high <= 1e-12 else "bar c0",
            data_tip=f"{x.text(each.low)} to {x.text(each.high)}: {each.count:,} {what}",
        )
        for each in found
        if each.count
    ]
    if signed and x.low < 0 < x.high:
        marks.append(tag("line", x1=area.x(0), x2=area.x(0), y1=area.y.start, y2=area.y.end, class_="axis"))
    return framed(area, label, *marks)
