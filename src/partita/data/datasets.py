"""How do data that are already in Python become a pool?"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset

from ..core.objectives import Problem
from ..errors import PartitaError
from .arrays import stack
from .pool import Array, Pool, pool

Lists = Sequence[Sequence[int]]
Indices = npt.NDArray[np.int64]


def from_dataset(
    dataset: Dataset[Any],
    *,
    name: str = "dataset",
    classes: int | None = None,
    clients: Lists | None = None,
    test: Sequence[int] | None = None,
    kind: Problem = "classification",
) -> Pool:
    """A torch dataset of (input, target), each read once, with what its transform makes of it then.

    `clients` holds for each client the indices of its samples; samples of nobody are left out. `test` holds the indices
    of the official test set.
    """
    # Torch's type of a dataset does not say that it has a length.
    count = len(dataset)  # type: ignore[arg-type]
    rows, owners = (np.arange(count), None) if clients is None else owners_of(clients, count)
    samples = [dataset[int(row)] for row in rows]
    if not samples:
        raise PartitaError(f"{name}: there are no samples.")
    return pool(
        name,
        stack([(f"{name}: the input of row {row}", _row(each[0])) for row, each in zip(rows, samples, strict=True)]),
        stack([(f"{name}: the target of row {row}", _row(each[1])) for row, each in zip(rows, samples, strict=True)]),
        classes=classes,
        kind=kind,
        clients=owners,
        official_test=None if test is None else np.isin(rows, _indices(test, count, "the test set")),
    )


def _row(value: object) -> Array:
    row: Array = np.asarray(value)[None]
    return row


def owners_of(clients: Lists, count: int) -> tuple[Indices, Indices]:
    """The rows that belong to somebody, in the order of the data, and to whom."""
    owners = np.full(count, -1, dtype=np.int64)
    for client, given in enumerate(clients):
        rows = _indices(given, count, f"client {client}")
        if len(taken := rows[owners[rows] >= 0]):
            raise PartitaError(f"Row {taken[0]} belongs to client {owners[taken[0]]} and to client {client}.")
        owners[rows] = client
    owned = np.flatnonzero(owners >= 0)
    return owned, owners[owned]


def _indices(given: Sequence[int], count: int, what: str) -> Indices:
    listed = np.asarray(given).reshape(-1)
    # Of objects where a number is too large for numpy; of no type where nothing is given.
    if len(listed) and listed.dtype.kind not in "iuO":
        raise PartitaError(f"The rows of {what} are of type {listed.dtype}. Give the numbers of rows.")
    wrong = [row for row in listed.tolist() if not isinstance(row, int) or not 0 <= row < count]
    if wrong:
        raise PartitaError(f"The rows of {what} include {wrong[0]}, but there are {count} rows.")
    rows = listed.astype(np.int64)
    if len(np.unique(rows)) != len(rows):
        raise PartitaError(f"The rows of {what} include one twice.")
    return rows
