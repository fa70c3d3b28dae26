"""Could it be chance? A paired test over clients, and a correction for many tests."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .metric import DECIMALS

Numbers = npt.NDArray[np.float64]


def paired_test(differences: Numbers) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test, without differences of zero.

    Where all differences have the same size there is nothing to rank, and the sign test is used. If all are zero, it
    is 1.
    """
    from scipy import stats

    rounded = np.round(differences, DECIMALS)
    moved = rounded[rounded != 0]
    if not len(moved):
        return 1.0
    if len(np.unique(np.abs(moved))) == 1:
        return float(stats.binomtest(int((moved > 0).sum()), len(moved)).pvalue)
    return float(stats.wilcoxon(moved).pvalue)


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
