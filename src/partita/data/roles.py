"""Which of a client's rows are for training, for validation and for testing?"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ..errors import PartitaError
from ..formatting import amount
from ..randomness import derive
from .pool import Pool
from .split import Role, Rows, Share


def check_fraction(fraction: float) -> None:
    if not 0 < fraction <= 1:
        raise PartitaError(f"fraction is {fraction}, but must be above 0 and at most 1.")


def reduced(share: Share, pool: Pool, fraction: float, seed: int, client: int) -> Share:
    """A client's share with this fraction of its rows, in each part and of each class alike; of fewer than 5, all."""
    if fraction == 1:
        return share

    def some(rows: Rows, part: str) -> Rows:
        chosen = stratified(_labels(pool, rows), fraction, np.random.RandomState(derive(seed, part, client) % 2**32))
        return rows[chosen] if chosen.any() else rows

    validation = None if share.validation is None else some(share.validation, "fraction of validation")
    train, test = some(share.train, "fraction of train"), some(share.test, "fraction of test")
    return replace(share, train=train, test=test, validation=validation)


def roles_of(share: Share, pool: Pool, validation: float, seed: int, client: int) -> dict[Role, Tensor]:
    """A client's rows by role; the validation rows are cut from its training rows unless the split gave them."""
    train, validated = share.train, share.validation
    given = np.concatenate([train, share.test, *([] if validated is None else [validated])])
    if len(wrong := given[(given < 0) | (given >= len(pool))]):
        raise PartitaError(
            f"{pool.name}: client {share.name or client} was given row {wrong[0]}, but there are {len(pool)} rows."
        )
    if validated is None:
        draw = np.random.RandomState(derive(seed, "validation", client) % 2**32)
        chosen = stratified(_labels(pool, train), validation, draw)
        train, validated = train[~chosen], train[chosen]
    rows: dict[Role, Rows] = {"train": train, "validation": validated, "test": share.test}
    return {role: torch.from_numpy(np.ascontiguousarray(each, dtype=np.int64)) for role, each in rows.items()}


def _labels(pool: Pool, rows: Rows) -> np.ndarray:
    """The class of each row, by which the rows are stratified; without classes, all rows have one."""
    return pool.targets.numpy()[rows] if pool.kind == "classification" else np.zeros(len(rows), dtype=np.int64)


def in_one_piece(roles: Sequence[Mapping[Role, Tensor]]) -> list[dict[Role, Tensor]]:
    """The same rows as parts of one tensor, so that processes share one piece of memory and not thousands."""
    sizes = [len(rows) for each in roles for rows in each.values()]
    parts = iter(torch.split(torch.cat([rows for each in roles for rows in each.values()]), sizes))
    return [{role: next(parts) for role in each} for each in roles]


def stratified(labels: np.ndarray, fraction: float, draw: np.random.RandomState) -> np.ndarray:
    """Mark a fraction of the rows, of each class in proportion as far as whole numbers allow; of fewer than 5, none."""
    chosen = np.zeros(len(labels), dtype=bool)
    count = min(round(fraction * len(labels)), len(labels) - 1)
    if fraction <= 0 or len(labels) < 5 or count < 1:
        return chosen
    classes, sizes = np.unique(labels, return_counts=True)
    exact = sizes * count / len(labels)
    whole = np.floor(exact).astype(int)
    largest = np.argsort(-(exact - whole), kind="stable")[: count - whole.sum()]
    whole[largest] += 1
    for label, number in zip(classes, whole, strict=True):
        chosen[draw.permutation(np.flatnonzero(labels == label))[:number]] = True
    return chosen


def check_roles(where: str, roles: Sequence[Mapping[Role, Tensor]], names: Sequence[str]) -> None:
    """Every client needs rows to train and to test, and no row may be given out twice."""
    if not roles:
        raise PartitaError(f"{where}: there are no clients. Choose a split that makes at least one.")
    needed: tuple[Role, ...] = ("train", "test")
    for role in needed:
        lacking = [client for client, each in enumerate(roles) if not len(each[role])]
        if lacking:
            listed = ", ".join(names[client] for client in lacking[:10]) + (", ..." if len(lacking) > 10 else "")
            raise PartitaError(
                f"{where}: {amount(len(lacking), 'client')} without {role} samples ({listed}). Take fewer clients, or "
                "a larger minimum."
            )
    used = torch.cat([rows for each in roles for rows in each.values()])
    if len(torch.unique(used)) != len(used):
        raise PartitaError(f"{where}: a sample was given out twice. Give each row to one client, in one role.")
