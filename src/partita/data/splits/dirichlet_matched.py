"""Dirichlet shares that are the same in train and test. Oh et al., 2022 (FedBABU, appendix H)."""

import numpy as np

from ..pool import Pool
from ..split import (
    Assign,
    Assignment,
    Rows,
    Share,
    by_class,
    check_least,
    dirichlet_shares,
    draws,
    enough,
    splitting,
    top_up_,
)


@splitting
def dirichlet_matched(
    *, clients: int = 100, alpha: float = 0.5, smallest_train: int = 10, smallest_test: int = 1, tries: int = 20
) -> Assign:
    """One Dirichlet(alpha) draw for each class divides both the official train set and the official test set."""

    def assign(pool: Pool, draw: np.random.RandomState) -> Assignment:
        check_least(0, smallest_train=smallest_train, smallest_test=smallest_test)
        check_least(1, tries=tries)
        train, test = (by_class(pool, pool.rows(test=role)) for role in (False, True))
        enough(pool, clients, smallest_train, sum(map(len, train)))
        enough(pool, clients, smallest_test, sum(map(len, test)))
        drawn = 0
        while True:
            drawn += 1
            shares = np.stack([dirichlet_shares(alpha, clients, draw) for _ in range(pool.classes)])
            halves = [_divide(rows, shares, draw) for rows in (train, test)]
            enough_each = min(map(len, halves[0])) >= smallest_train and min(map(len, halves[1])) >= smallest_test
            if enough_each or drawn == tries:
                break
        notes = draws(drawn)
        moved = top_up_(halves[0], smallest_train, draw) + top_up_(halves[1], smallest_test, draw)
        if moved:
            notes.append(f"{moved} samples moved from the largest to the smallest clients")
        return Assignment([Share(np.sort(a), np.sort(b)) for a, b in zip(*halves, strict=True)], notes)

    return assign


def _divide(rows: list[Rows], shares: np.ndarray, draw: np.random.RandomState) -> list[Rows]:
    """Each class by its row of shares; rounding leaves the remainder to the last client, so the order is drawn too."""
    parts: list[list[Rows]] = [[] for _ in shares[0]]
    for members, share in zip(rows, shares, strict=True):
        order = draw.permutation(len(share))
        ends = np.floor(np.cumsum(share[order])[:-1] * len(members) + 1e-9).astype(int)
        for client, piece in zip(order, np.split(draw.permutation(members), ends), strict=True):
            parts[client].append(piece)
    return [np.concatenate(part) for part in parts]
