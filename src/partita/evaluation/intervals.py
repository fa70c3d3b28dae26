"""How far can chance move the difference of two accuracies? An interval, by the number of samples they are of."""

import math

LEVEL = 0.95
QUANTILE = 1.959964
"""Of the normal distribution, for an interval of 95 %."""


def share_interval(share: float, count: int) -> tuple[float, float]:
    """Of a share of so many samples, by Wilson's formula.

    >>> [round(end, 3) for end in share_interval(0.5, 10)]
    [0.237, 0.763]
    """
    square = QUANTILE**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = QUANTILE * math.sqrt(share * (1 - share) / count + square / (4 * count**2)) / (1 + square / count)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def difference_interval(one: float, other: float, count: int) -> tuple[float, float]:
    """Of the first share less the second, both of the same samples, by Newcombe's formula.

    The formula takes the two for independent. Two models that answer the same samples err on much the same ones, so the
    interval is rather too wide than too narrow.

    >>> [round(end, 3) for end in difference_interval(0.3, 0.9, 10)]
    [-0.809, -0.171]
    """
    low, high = share_interval(one, count)
    other_low, other_high = share_interval(other, count)
    change = one - other
    return change - math.hypot(one - low, other_high - other), change + math.hypot(high - one, other - other_low)
