"""Where does a value lie on a chart? On a line between two ends, with ticks at round numbers."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..evaluation.metric import Metric
from ..formatting import plain
from .sampling import evenly

STEPS = (1, 2, 2.5, 5, 10, 20, 25, 50)


@dataclass(frozen=True)
class Axis:
    """One axis of a chart."""

    label: str
    low: float
    high: float
    ticks: tuple[float, ...]
    text: Callable[[float], str] = plain
    """How a tick is written."""
    say: Callable[[float], str] = plain
    """How a value is written in a tooltip, with its unit."""
    logarithmic: bool = False


@dataclass(frozen=True)
class Scale:
    """Maps values of an axis to pixels."""

    axis: Axis
    start: float
    end: float

    def __call__(self, value: float) -> float:
        low, high = self.axis.low, self.axis.high
        if self.axis.logarithmic:
            low, high, value = math.log(low), math.log(high), math.log(value)
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def ticks(low: float, high: float, most: int = 6, *, whole: bool = False) -> tuple[float, ...]:
    """Round numbers from at or below `low` to at or above `high`, no more than asked (at least three).

    >>> ticks(3, 97)
    (0.0, 20.0, 40.0, 60.0, 80.0, 100.0)
    >>> ticks(35, 36, whole=True)
    (35.0, 36.0)
    """
    if low == high:
        # One value alone has no span: an axis around it, from zero where it is zero.
        low, high = (0.0, 1.0) if low == 0 else (low - abs(low) / 2, high + abs(high) / 2)
    span = high - low
    power = 10.0 ** math.floor(math.log10(span / most))
    steps = [factor * power for factor in STEPS]
    if whole:
        steps = [1.0, *(step for step in steps if step > 1 and step % 1 == 0)]
    candidates = (_multiples(low, high, step) for step in steps)
    return next(found for found in candidates if len(found) <= max(most, 3))


def axis(
    label: str,
    values: Iterable[float],
    text: Callable[[float], str] = plain,
    say: Callable[[float], str] = plain,
    *,
    most: int = 6,
    within: tuple[float, float] = (-math.inf, math.inf),
    whole: bool = False,
) -> Axis:
    """An axis that begins and ends at ticks around the values; `within` are bounds that scores cannot leave.

    With `whole`, ticks are at whole numbers.
    """
    known = list(values)
    low, high = min(known), max(known)
    # Values that differ by rounding alone are one value.
    found = ticks(low, low if math.isclose(low, high) else high, most, whole=whole)
    kept = tuple(tick for tick in found if within[0] - 1e-9 <= tick <= within[1] + 1e-9)
    return Axis(label, max(found[0], within[0]), min(found[-1], within[1]), kept, text, say)


def score_axis(metric: Metric, values: Iterable[float]) -> Axis:
    """An axis for scores. Values beyond the bounds of the metric, such as the end of a spread, are cut off."""
    low, high = metric.bounds
    within = [min(max(value, low), high) for value in values]
    return axis(metric.axis, within, metric.tick, metric.text, within=metric.bounds)


def gain_axis(metric: Metric, values: Iterable[float], most: int = 7) -> Axis:
    return axis(metric.gain_axis, values, metric.tick, metric.change, most=most)


def whole_axis(label: str, first: int, last: int) -> Axis:
    """An axis for whole numbers, such as rounds."""
    end = max(last, first + 1)
    return Axis(label, first, end, tuple(tick for tick in ticks(first, end) if tick % 1 == 0 and first <= tick <= end))


def count_axis(label: str, values: Iterable[float]) -> Axis:
    """An axis for counts from zero, at whole numbers."""
    end = max(math.ceil(max(values, default=1)), 1)
    found = ticks(0, end)
    return Axis(label, 0, found[-1] if found[-1] % 1 == 0 else end, tuple(tick for tick in found if tick % 1 == 0))


def size_axis(label: str, values: Iterable[float], *, few: bool = False) -> Axis:
    """An axis for counts, logarithmic where they span more than a factor of twenty; with few ticks where asked."""
    known = [max(value, 1.0) for value in values]
    low, high = min(known), max(known)
    if high / low <= 20:
        return axis(label, known, most=4 if few else 6, within=(0, math.inf), whole=True)
    steps = (factor * 10.0**power for power in range(0, 13) for factor in (1, 2, 5))
    found = tuple(step for step in steps if low <= step <= high)
    most, powers = 3 if few else 6, tuple(step for step in found if math.log10(step) % 1 < 1e-9)
    # A single tick would not say what a distance means.
    shown = found if len(found) <= most else powers if len(powers) > 1 else tuple(evenly(found, most))
    return Axis(label, low / 1.1, high * 1.1, shown, logarithmic=True)


def _multiples(low: float, high: float, step: float) -> tuple[float, ...]:
    # What is within rounding of a multiple is one.
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return tuple(step * number for number in range(first, max(last, first + 1) + 1))
