"""How do data that are already in Python become a pool?"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils.data import Dataset

from ..core.objectives import Problem
from ..errors import PartitaError
from .arrays import stack
from .pool import Array, Pool, pool
from .text import text_pool

Lists = Sequence[Sequence[int]]
Indices = npt.NDArray[np.int64]
Inputs = Array | list[str]


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

    `clients` holds for each client the indices of its samples; others are left out. `test` holds the indices
    of the official test set.
    """
    count = _length(dataset, name)
    rows, owners = (np.arange(count), None) if clients is None else owners_of(clients, count)
    inputs, targets = read_dataset(dataset, name, rows)
    tested = None if test is None else np.isin(rows, _indices(test, count, "the test set"))
    if isinstance(inputs, list):
        return text_pool(name, inputs, targets, kind=kind, classes=classes, clients=owners, official_test=tested)
    return pool(name, inputs, targets, classes=classes, kind=kind, clients=owners, official_test=tested)


def read_dataset(dataset: Dataset[Any], where: str, rows: Indices | None = None) -> tuple[Inputs, Array]:
    """Inputs and targets of a dataset, or of some of its rows, in their order."""
    chosen = range(_length(dataset, where)) if rows is None else rows.tolist()
    samples = []
    for row in chosen:
        sample = dataset[row]
        if not isinstance(sample, tuple | list) or len(sample) < 2:
            raise PartitaError(f"{where}: row {row} of the dataset is a {type(sample).__name__}, not (input, target).")
        samples.append(sample)
    if not samples:
        raise PartitaError(f"{where}: there are no samples.")
    texts = texts_of([sample[0] for sample in samples])
    inputs = _stacked(where, "input", chosen, [sample[0] for sample in samples]) if texts is None else texts
    return inputs, _stacked(where, "target", chosen, [sample[1] for sample in samples])


def _length(dataset: Dataset[Any], where: str) -> int:
    try:
        # Torch's type of a dataset does not say that it has a length.
        return len(dataset)  # type: ignore[arg-type]
    except TypeError as problem:
        raise PartitaError(f"{where}: the dataset has no length. Give one whose rows can be counted.") from problem


def _stacked(where: str, what: str, rows: Sequence[int], values: Sequence[object]) -> Array:
    named = ((f"{where}: the {what} of row {row}", value) for row, value in zip(rows, values, strict=True))
    return stack([(each, array_of(value, each)[None]) for each, value in named])


def array_of(values: Any, where: str) -> Array:
    """An array of arrays, tensors, lists of them, or a column of a data frame."""
    if isinstance(values, Tensor):
        plain = values.detach().cpu().to_dense()
        # Numpy does not have this type.
        found: Array = (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
        return found
    if isinstance(values, list | tuple) and values and isinstance(values[0], Tensor):
        values = [array_of(each, where) for each in values]
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as problem:
        raise PartitaError(
            f"{where} cannot be put into one array: {str(problem).rstrip('.')}. Rows must be of one shape."
        ) from problem


def texts_of(values: Any) -> list[str] | None:
    """The texts, where all of them are such."""
    if isinstance(values, np.ndarray) or hasattr(values, "to_numpy"):
        values = np.asarray(values).tolist()
    if not isinstance(values, list | tuple) or not values or not all(isinstance(each, str) for each in values):
        return None
    return list(values)


def owners_of(clients: Lists, count: int) -> tuple[Indices, Indices]:
    """The rows that belong to a client, in the order of the data, and their clients."""
    owners = np.full(count, -1, dtype=np.int64)
    for client, given in enumerate(clients):
        rows = _indices(given, count, f"client {client}")
        if len(taken := rows[owners[rows] >= 0]):
            raise PartitaError(
                f"Row {taken[0]} belongs to client {owners[taken[0]]} and to client {client}. Give each row to one "
                "client."
            )
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
        raise PartitaError(
            f"The rows of {what} include {wrong[0]}, but there are {count} rows. Number the rows from 0."
        )
    rows = listed.astype(np.int64)
    if len(np.unique(rows)) != len(rows):
        raise PartitaError(f"The rows of {what} include one twice. Name each row once.")
    return rows
