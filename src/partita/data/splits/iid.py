"""Equal shares at random."""

import numpy as np

from ..pool import Pool
from ..split import Assign, Assignment, Share, check_part, cut, enough, splitting


@splitting
def iid(*, clients: int = 20, test: float = 0.25) -> Assign:
    """Equal shares at random; the official test set is divided likewise, or a part of each share is for testing."""

    def assign(pool: Pool, draw: np.random.RandomState) -> Assignment:
        check_part("test", test)
        if pool.official_test is None:
            enough(pool, clients, 2)
            return Assignment([cut(part, test, draw) for part in _parts(np.arange(len(pool)), clients, draw)])
        enough(pool, clients, 1, min(len(pool.rows(test=role)) for role in (False, True)))
        halves = [_parts(pool.rows(test=role), clients, draw) for role in (False, True)]
        return Assignment([Share(train, tested) for train, tested in zip(*halves, strict=True)])

    return assign


def _parts(rows: np.ndarray, clients: int, draw: np.random.RandomState) -> list[np.ndarray]:
    return [np.sort(part) for part in np.array_split(draw.permutation(rows), clients)]
