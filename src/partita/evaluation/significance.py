"""Could it be chance? A paired test over clients, and a correction for many tests."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .metric import DECIMALS

Numbers = npt.NDArray[np.float64]


# Up to this number of differences the distribution is exact; beyond it, the normal one differs by less than 1e-3.
EXACT = 100


def paired_test(differences: Numbers) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test, without differences of zero.

    Differences of one size share their mean rank; where all have one size, this is the sign test. If all are zero, the
    p-value is 1.
    """
    rounded = np.round(differences, DECIMALS)
    moved = rounded[rounded != 0]
    if not len(moved):
        return 1.0
    sizes = np.abs(moved)
    ordered = np.sort(sizes)
    # Doubled, mean ranks are whole numbers.
    ranks = np.searchsorted(ordered, sizes, "left") + np.searchsorted(ordered, sizes, "right") + 1
    positive, whole = int(ranks[moved > 0].sum()), int(ranks.sum())
    smaller = min(positive, whole - positive)
    if len(moved) > EXACT:
        return math.erfc((whole / 2 - smaller) / math.sqrt(float((ranks**2).sum()) / 2))
    # How likely is each sum of ranks, if each sign is as likely as the other?
    chances = np.zeros(whole + 1)
    chances[0] = 1.0
    for rank in ranks:
        chances[rank:] += chances[:-rank].copy()
        chances /= 2
    return min(1.0, 2 * float(chances[: smaller + 1].sum()))


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
