"""Where is a data set that has a name? In a data folder as NAME.npz or as published, or where it is published."""

from pathlib import Path

from torch import Tensor

from ...core.objectives import Problem
from ...errors import PartitaError
from ..arrays import Units, naming, read_npz
from ..checksums import verified
from ..download import find
from ..pool import Pool


def stored(
    name: str,
    *,
    file: str | None = None,
    kind: Problem = "classification",
    text: Units = "words",
    classes: int | None = None,
    shape: tuple[int, ...] | None = None,
) -> Pool | None:
    """Read NAME.npz, if there is such a file; rows of another shape are an error."""
    path = find(f"{file or name}.npz")
    if path is None:
        return None
    pool = read_npz(path, name=name, kind=kind, text=text, classes=classes)
    with naming(path):
        check_shape(pool, shape)
    return pool


def check_shape(pool: Pool, shape: tuple[int, ...] | None) -> None:
    """Refuse rows that do not have the shape of this data set."""
    if shape is not None and isinstance(pool.inputs, Tensor) and pool.inputs.shape[1:] != shape:
        raise PartitaError(f"rows of {pool.name} have shape {shape}, but these have {tuple(pool.inputs.shape[1:])}.")


def locate(name: str, *candidates: str) -> Path | None:
    """The first candidate that exists in the data set's folder within a data folder, or in a data folder itself."""
    found = find(*(f"{name}/{each}" for each in candidates), *candidates)
    return verified(found) if found and found.is_file() else found
