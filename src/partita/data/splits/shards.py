"""Shards of classes. Oh et al., 2022 (FedBABU), https://arxiv.org/abs/2106.06042"""

import numpy as np

from ...errors import PartitaError
from ..pool import Pool
from ..split import Assign, Assignment, Rows, Share, by_class, enough, splitting


@splitting
def shards(*, clients: int = 100, each: int = 2) -> Assign:
    """Classes are cut into equal shards; each client gets `each` of them, of the same classes in train and test."""

    def assign(pool: Pool, draw: np.random.RandomState) -> Assignment:
        enough(pool, clients, max(each, 1))
        if each < 1 or clients * each % pool.classes:
            raise PartitaError(
                f"{clients} clients with {each} shards each: {clients * each} shards are no multiple of the "
                f"{pool.classes} classes. Change a number."
            )
        per_class = clients * each // pool.classes
        labels = draw.permutation(np.repeat(np.arange(pool.classes), per_class)).reshape(clients, each)
        train, test = (_deal(by_class(pool, pool.rows(test=role)), labels, per_class, draw) for role in (False, True))
        return Assignment([Share(*rows) for rows in zip(train, test, strict=True)])

    return assign


def _deal(rows: list[Rows], labels: np.ndarray, per_class: int, draw: np.random.RandomState) -> list[Rows]:
    """Contiguous shards of each class; the first take one more sample where some remain; drawn without replacement."""
    stacks = []
    for members in rows:
        size = len(members) // per_class
        left = members[size * per_class :]
        pieces = [np.append(members[at * size : (at + 1) * size], left[at : at + 1]) for at in range(per_class)]
        stacks.append([pieces[at] for at in draw.permutation(per_class)])
    return [np.sort(np.concatenate([stacks[label].pop() for label in row])) for row in labels]
