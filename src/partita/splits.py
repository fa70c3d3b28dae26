"""Which samples go to which client?"""

import numpy as np
import torch
from torch import Tensor

from .errors import PartitaError
from .randomness import derive


def iid(targets: Tensor, clients: int, seed: int) -> list[Tensor]:
    """Equal shares at random."""
    order = np.random.default_rng(derive(seed, "split")).permutation(len(targets))
    return [torch.from_numpy(np.sort(part)) for part in np.array_split(order, clients)]


def dirichlet(targets: Tensor, clients: int, seed: int, *, alpha: float = 0.1, smallest: int = 10) -> list[Tensor]:
    """Of each class a share drawn from Dirichlet(alpha) to each client.

    Clients below the smallest size then take samples at random from the largest ones, so that it always ends.
    """
    if alpha <= 0:
        raise PartitaError(f"Dirichlet({alpha}): alpha must be above 0; small values make clients more different.")
    if clients * smallest > len(targets):
        raise PartitaError(
            f"{len(targets)} samples cannot give {clients} clients at least {smallest} each. Take fewer clients or a "
            "smaller minimum."
        )
    draw = np.random.default_rng(derive(seed, "split"))
    labels = targets.numpy()
    parts: list[list[int]] = [[] for _ in range(clients)]
    for label in np.unique(labels):
        members = draw.permutation(np.flatnonzero(labels == label))
        shares = draw.dirichlet(np.full(clients, alpha))
        cuts = np.floor(np.cumsum(shares)[:-1] * len(members) + 1e-9).astype(int)
        for part, chosen in zip(parts, np.split(members, cuts), strict=True):
            part.extend(chosen.tolist())
    for part in parts:
        while len(part) < smallest:
            giver = max(parts, key=len)
            part.append(giver.pop(int(draw.integers(len(giver)))))
    return [torch.from_numpy(np.sort(np.array(part, dtype=np.int64))) for part in parts]
