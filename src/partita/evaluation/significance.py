"""Could it be chance? A paired test over clients, and a correction for many tests."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from .metric import DECIMALS

EXACT = 100
"""Up to this number of differences the distribution is exact; beyond it, the normal one differs by less than 1e-3."""


def paired_test(differences: Iterable[float]) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test, without differences of zero.

    Differences of one size share their mean rank; where all have one size, this is the sign test. If all are zero, the
    p-value is 1.
    """
    moved = [each for each in (round(float(difference), DECIMALS) for difference in differences) if each]
    ordered = sorted(map(abs, moved))
    # Doubled, mean ranks are whole numbers.
    ranks = [bisect_left(ordered, abs(each)) + bisect_right(ordered, abs(each)) + 1 for each in moved]
    positive, whole = sum(rank for rank, each in zip(ranks, moved, strict=True) if each > 0), sum(ranks)
    smaller = min(positive, whole - positive)
    if len(moved) > EXACT:
        return math.erfc((whole / 2 - smaller) / math.sqrt(sum(rank**2 for rank in ranks) / 2))
    # Digit s of this number, in base 2 ** bits, counts the choices of signs whose positive ranks sum to s.
    bits, choices = len(moved) + 2, 1
    for rank in ranks:
        choices += choices << (rank * bits)
    # The sum of the digits up to `smaller`: the base is 1 modulo (base - 1).
    low = choices % (1 << (bits * (smaller + 1)))
    return min(1.0, 2 * (low % ((1 << bits) - 1)) / (1 << len(moved)))


def holm(values: Sequence[float]) -> list[float]:
    """P-values by Holm's step-down procedure, which controls the chance of any false finding among all tests.

    The smallest of n values is multiplied by n, the next by n - 1, and so on.
    """
    corrected = [0.0] * len(values)
    largest = 0.0
    for done, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        # A larger p-value is never corrected to a smaller one.
        largest = max(largest, min(1.0, (len(values) - done) * values[place]))
        corrected[place] = largest
    return corrected
