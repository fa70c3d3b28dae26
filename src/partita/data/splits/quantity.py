"""Unequal amounts of alike data."""

import numpy as np

from ..pool import Pool
from ..split import Assign, Assignment, check_least, check_part, cut, enough, splitting


@splitting
def quantity(*, clients: int = 20, spread: float = 1.0, smallest: int = 4, test: float = 0.25) -> Assign:
    """Log-normal sizes (`spread` is the standard deviation of their logarithm), classes at random."""

    def assign(pool: Pool, draw: np.random.RandomState) -> Assignment:
        check_part("test", test)
        check_least(0, spread=spread, smallest=smallest)
        enough(pool, clients, smallest)
        shares = draw.lognormal(0.0, spread, clients)
        spare = len(pool) - clients * smallest
        cuts = np.floor(np.cumsum(shares / shares.sum())[:-1] * spare + 1e-9).astype(np.int64)
        ends = cuts + smallest * np.arange(1, clients)
        return Assignment([cut(part, test, draw) for part in np.split(draw.permutation(len(pool)), ends)])

    return assign
