"""A few classes for each client. Arivazhagan et al., 2019 (FedPer), https://arxiv.org/abs/1912.00818"""

import numpy as np

from ...errors import PartitaError
from ..pool import Pool
from ..split import Assign, Assignment, Rows, Share, by_class, enough, splitting


@splitting
def k_classes(*, clients: int = 10, classes: int = 4, random_assign: bool = False) -> Assign:
    """Each client gets `classes` classes. A class is divided equally among its clients, in train and test alike.

    Every class goes to the same number of clients, unless `random_assign` lets each client draw for itself.
    """

    def assign(pool: Pool, draw: np.random.RandomState) -> Assignment:
        enough(pool, clients)
        total = pool.classes
        if not 1 <= classes <= total:
            raise PartitaError(
                f"classes is {classes}, but must be from 1 to {total}, the number of classes of {pool.name}."
            )
        if random_assign:
            matrix = [draw.choice(total, classes, replace=False) for _ in range(clients)]
        elif clients * classes % total:
            raise PartitaError(
                f"{clients} clients with {classes} of {total} classes each cannot share every class alike: {clients} x "
                f"{classes} is no multiple of {total}. Change a number, or set random_assign."
            )
        else:
            names, places = draw.permutation(total), draw.permutation(clients)
            matrix = [names[(place * classes + np.arange(classes)) % total] for place in places]
        halves = [_divide(by_class(pool, pool.rows(test=role)), matrix, draw) for role in (False, True)]
        unused = total - len({int(label) for labels in matrix for label in labels})
        notes = [f"{unused} classes belong to no client"] if unused else []
        return Assignment([Share(train, test) for train, test in zip(*halves, strict=True)], notes)

    return assign


def _divide(rows: list[Rows], matrix: list[np.ndarray], draw: np.random.RandomState) -> list[Rows]:
    parts: list[list[Rows]] = [[] for _ in matrix]
    for label, members in enumerate(rows):
        holders = [client for client, labels in enumerate(matrix) if label in labels]
        pieces = np.array_split(draw.permutation(members), len(holders)) if holders else []
        for client, piece in zip(holders, pieces, strict=True):
            parts[client].append(piece)
    return [np.sort(np.concatenate(part)) for part in parts]
