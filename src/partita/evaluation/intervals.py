"""How far can chance move the difference of two scores? Intervals, from the samples that both scores share."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

Interval = tuple[float, float]
Numbers = Sequence[float]

LEVEL = 0.95
QUANTILE = 1.959964
"""The quantile of the normal distribution for an interval of 95 %."""
STUDENT = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157)
"""The same quantile of Student's distribution with 1, 2, ... degrees of freedom."""

MANY = 1000
"""With more pairs that differ than this, the exact test says the same as the formula."""


def student_quantile(freedom: int) -> float:
    """The quantile of Student's distribution for an interval of 95 %; from 10 degrees of freedom on, an expansion.

    >>> [round(student_quantile(freedom), 3) for freedom in (1, 9, 10, 30, 1000)]
    [12.706, 2.262, 2.228, 2.042, 1.962]
    """
    if freedom <= len(STUDENT):
        return STUDENT[freedom - 1]
    z = QUANTILE
    first, second = (z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    fourth = (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160
    return z + first / freedom + second / freedom**2 + third / freedom**3 + fourth / freedom**4


def half_width(values: Sequence[float]) -> float | None:
    """Half the width of the 95 % interval of a mean, by Student's distribution; None for one value."""
    if len(values) < 2:
        return None
    return student_quantile(len(values) - 1) * stdev(values) / math.sqrt(len(values))


def paired_shares(better: int, worse: int, count: int) -> Interval:
    """The interval of the difference of two shares of the same samples, by Bonett and Price (2012).

    `better` is the number of samples that only the first has right, `worse` that only the second has right. With few of
    them the formula is too narrow, so the interval reaches to 0 unless McNemar's exact test finds a difference too.

    >>> [round(end, 3) for end in paired_shares(0, 6, 100)], [round(end, 3) for end in paired_shares(0, 5, 10)]
    ([-0.112, -0.006], [-0.779, 0.0])
    """
    one, other = (better + 1) / (count + 2), (worse + 1) / (count + 2)
    change = one - other
    half = QUANTILE * math.sqrt((one + other - change**2) / (count + 2))
    low, high = max(change - half, -1.0), min(change + half, 1.0)
    if low <= 0 <= high or better + worse > MANY or exact_test(better, worse) < 1 - LEVEL:
        return low, high
    return min(low, 0.0), max(high, 0.0)


def exact_test(better: int, worse: int) -> float:
    """The two-sided p-value of McNemar's exact test.

    >>> exact_test(0, 5), exact_test(0, 6), exact_test(3, 3), exact_test(0, 0)
    (0.0625, 0.03125, 1.0, 1.0)
    """
    total = better + worse
    tail: int = sum(math.comb(total, place) for place in range(min(better, worse) + 1))
    return min(1.0, tail / (1 << (total - 1))) if total else 1.0


def paired_ratios(counts: Numbers, differences: Numbers) -> Interval | None:
    """The interval of a ratio of sums, differences over counts, from the spread over samples, by Student's t."""
    size, total = len(counts), math.fsum(counts)
    if size < 2 or total == 0:
        return None
    change = math.fsum(differences) / total
    each = zip(counts, differences, strict=True)
    return _around(change, [(difference - change * count) * (size / total) for count, difference in each])


def paired_errors(own: Numbers, other: Numbers) -> Interval | None:
    """The interval of the difference of two RMSEs on the same samples, by the delta method and Student's t."""
    if len(own) < 2:
        return None
    own_root, other_root = (math.sqrt(fmean(squares)) for squares in (own, other))
    # Where an error is 0 throughout, so is its part.
    own_scale, other_scale = (2 * root or 1.0 for root in (own_root, other_root))
    parts = [others / other_scale - mine / own_scale for mine, others in zip(own, other, strict=True)]
    return _around(other_root - own_root, parts)


def _around(middle: float, parts: Numbers) -> Interval:
    """An interval for a mean of such parts, one of each sample."""
    half = half_width(parts) or 0.0
    return middle - half, middle + half


def over_seeds(gains: Sequence[float], intervals: Sequence[Interval]) -> Interval | None:
    """The interval of the mean gain of a client under several seeds; None for one seed without an interval.

    Seeds mostly share a client's test samples, so the part that is due to samples does not shrink with the number of
    seeds: it is the root mean square of the half widths. The part that is due to the seed is Student's. The two are
    added in squares.
    """
    if not intervals or len(intervals) < len(gains):
        return None
    if len(gains) == 1:
        return intervals[0]
    samples = math.sqrt(fmean(((high - low) / 2) ** 2 for low, high in intervals))
    half = math.hypot(samples, half_width(gains) or 0.0)
    middle = fmean((low + high) / 2 for low, high in intervals)
    return middle - half, middle + half


def share_interval(share: float, count: int) -> Interval:
    """The interval of a share of `count` samples, by Wilson's formula.

    >>> [round(end, 3) for end in share_interval(0.5, 10)]
    [0.237, 0.763]
    """
    square = QUANTILE**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = QUANTILE * math.sqrt(share * (1 - share) / count + square / (4 * count**2)) / (1 + square / count)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def unpaired_shares(one: float, other: float, count: int) -> Interval:
    """The interval of the first share minus the second if only totals are known, by Newcombe's formula.

    The formula assumes that the two are independent. Two models tend to be wrong on the same samples, so the interval
    is too wide rather than too narrow.

    >>> [round(end, 3) for end in unpaired_shares(0.3, 0.9, 10)]
    [-0.809, -0.171]
    """
    low, high = share_interval(one, count)
    other_low, other_high = share_interval(other, count)
    change = one - other
    return change - math.hypot(one - low, other_high - other), change + math.hypot(high - one, other - other_low)
