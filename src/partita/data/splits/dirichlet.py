"""Dirichlet shares of the classes, as in PFLlib, FedALA and FLAYER."""

import numpy as np

from ...errors import PartitaError
from ..pool import Pool
from ..split import (
    Assign,
    Assignment,
    Rows,
    by_class,
    check_least,
    check_part,
    cut,
    dirichlet_shares,
    draws,
    enough,
    splitting,
    top_up_,
)

MOST_TRIES = 1000
"""A bound on repeated draws, which might hardly ever leave every client enough samples."""


@splitting
def dirichlet(
    *,
    clients: int = 20,
    alpha: float = 0.1,
    smallest: int = 40,
    test: float = 0.25,
    tries: int = 20,
    balanced: bool = True,
    legacy_seed: int | None = None,
) -> Assign:
    """All data merged; of each class a share drawn from Dirichlet(alpha) to each client; then cut into train and test.

    `balanced`: a client that already has an equal share of all data gets nothing of further classes. A draw that leaves
    a client below `smallest` (at most half of an equal share) is repeated some times; then the largest give to the
    smallest. `legacy_seed` draws from numpy's global generator of that seed, as published scripts do.
    """

    def assign(pool: Pool, draw: np.random.RandomState) -> Assignment:
        enough(pool, clients, 2)
        check_part("test", test)
        check_least(0, smallest=smallest)
        check_least(1, tries=tries)
        if tries > MOST_TRIES:
            raise PartitaError(f"tries is {tries}, but must be at most {MOST_TRIES:,}. Lower smallest, or raise alpha.")
        if legacy_seed is not None and not 0 <= legacy_seed < 2**32:
            raise PartitaError(
                f"legacy_seed is {legacy_seed}, but must be from 0 to {2**32 - 1}, the seeds of numpy's generator."
            )
        least = max(int(min(smallest, len(pool) / clients / 2)), 2)
        source = draw if legacy_seed is None else np.random.RandomState(legacy_seed)
        classes = by_class(pool)
        full = len(pool) / clients if balanced else np.inf
        drawn = 0
        while True:
            drawn += 1
            pieces = _draw(classes, clients, alpha, full, source)
            if np.sum([np.diff(ends) for _, ends in pieces], axis=0).min() >= least or drawn == tries:
                break
        parts = [
            np.concatenate([members[ends[client] : ends[client + 1]] for members, ends in pieces])
            for client in range(clients)
        ]
        notes = draws(drawn)
        if moved := top_up_(parts, least, source):
            notes.append(f"{moved} samples moved from the largest to the smallest clients")
        return Assignment([cut(part, test, source) for part in parts], notes)

    return assign


def _draw(
    classes: list[Rows], clients: int, alpha: float, full: float, source: np.random.RandomState
) -> list[tuple[Rows, Rows]]:
    """The rows of each class in a random order, and where each client's begin and end."""
    pieces = []
    sizes = np.zeros(clients, dtype=np.int64)
    for members in classes:
        shuffled = members.copy()
        source.shuffle(shuffled)
        shares = dirichlet_shares(alpha, clients, source) * (sizes < full)
        if not shares.sum() > 0:
            # A tiny alpha can underflow to nothing at all: the smallest client takes the class.
            shares[sizes.argmin()] = 1.0
        ends = (np.cumsum(shares / shares.sum()) * len(shuffled)).astype(np.int64)
        ends = np.concatenate([[0], ends[:-1], [len(shuffled)]])
        pieces.append((shuffled, ends))
        sizes += np.diff(ends)
    return pieces
