"""Clients as they are in the data. Pillutla et al., 2022, https://arxiv.org/abs/2204.03809"""

import numpy as np

from ...errors import PartitaError
from ..pool import Pool
from ..split import Assign, Assignment, Share, check_least, check_part, cut, splitting


@splitting
def natural(
    *,
    clients: int | None = None,
    test: float | None = None,
    smallest_train: int = 2,
    smallest_test: int = 1,
    largest_train: int | None = None,
) -> Assign:
    """One client for each client id, with the official test set or a fraction `test` of its own rows for testing.

    Clients with fewer rows than the minimum are left out; of the others a number can be drawn, and the training rows of
    each can be capped.
    """

    def assign(pool: Pool, draw: np.random.RandomState) -> Assignment:
        if pool.clients is None:
            raise PartitaError(f"{pool.name} does not name the client of each sample. Choose another split.")
        check_part("test", test)
        check_least(0, smallest_train=smallest_train, smallest_test=smallest_test)
        check_least(1, largest_train=largest_train)
        owners = pool.clients.numpy()
        order = np.argsort(owners, kind="stable")
        rows = np.split(order, np.cumsum(np.bincount(owners))[:-1])
        tested = None if test is not None or pool.official_test is None else pool.official_test.numpy()
        found = []
        for number, own in enumerate(rows):
            if tested is None:
                share = cut(own, 0.25 if test is None else test, draw) if len(own) > 1 else Share(own, own[:0])
            else:
                share = Share(own[~tested[own]], own[tested[own]])
            if len(share.train) >= smallest_train and len(share.test) >= smallest_test:
                train = np.sort(draw.permutation(share.train)[:largest_train])
                found.append(Share(train, share.test, pool.client_names[number]))
        if not found:
            raise PartitaError(
                f"No client of {pool.name} has {smallest_train} training and {smallest_test} test samples. Lower "
                "these numbers"
                + (", or cut a test part from each client (test = 0.25)." if tested is not None else ".")
            )
        notes = []
        if len(found) < len(rows):
            kept = {share.name for share in found}
            names = [name for name in pool.client_names if name not in kept]
            some = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
            notes.append(f"{len(names)} of {len(rows)} clients left out for too few samples ({some})")
        if clients is not None:
            if not 0 < clients <= len(found):
                raise PartitaError(
                    f"clients is {clients}, but must be from 1 to {len(found)}, the number of clients with enough "
                    "samples."
                )
            notes.append(f"{clients} of {len(found)} drawn")
            found = [found[at] for at in np.sort(draw.permutation(len(found))[:clients])]
        return Assignment(found, notes)

    return assign
