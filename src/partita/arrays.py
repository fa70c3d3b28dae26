"""How are arrays read from files? Without unpickling anything, and with errors that name file and key."""

import zipfile
from pathlib import Path
from typing import Literal

import numpy as np

from .errors import PartitaError
from .pool import Array, Kind, Pool, pool
from .text import text_pool

Units = Literal["words", "characters"]


def load_npz(path: Path) -> dict[str, Array]:
    """Every array of a file; pickled objects are refused."""
    if not path.exists():
        raise PartitaError(f"There is no file {path}.")
    try:
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in file.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as problem:
        raise PartitaError(
            f"{path} cannot be read as .npz arrays: {problem}. Is it damaged, truncated or pickled?"
        ) from problem


def read_npz(
    path: Path,
    *,
    name: str | None = None,
    kind: Kind = "classification",
    text: Units = "words",
    classes: int | None = None,
) -> Pool:
    """A pool from x, y and client, or from x_train, y_train, x_test, y_test and client_train, client_test."""
    arrays = load_npz(path)
    for suffixes in (("_train", "_test"), ("",)):
        if all(f"x{suffix}" in arrays for suffix in suffixes):
            break
    else:
        raise PartitaError(
            f"{path} has neither x nor x_train and x_test; it has {', '.join(sorted(arrays)) or 'nothing'}."
        )
    joined = {what: _joined(arrays, what, suffixes, path) for what in ("x", "y", "client")}
    inputs, targets, clients = joined["x"], joined["y"], joined["client"]
    assert inputs is not None
    tested = None
    if len(suffixes) == 2:
        tested = np.arange(len(inputs)) >= len(arrays["x_train"])
    label = name or path.stem
    if inputs.dtype.kind == "U":
        if targets is None:
            kind = "next_word"
        return text_pool(
            label,
            inputs.tolist(),
            targets,
            kind=kind,
            characters=text == "characters",
            clients=clients,
            official_test=tested,
            classes=classes,
        )
    if targets is None:
        raise PartitaError(f"{path} has inputs but no y: only text can do without, for next-word prediction.")
    return pool(label, inputs, targets, classes=classes, kind=kind, clients=clients, official_test=tested)


def _joined(arrays: dict[str, Array], what: str, suffixes: tuple[str, ...], path: Path) -> Array | None:
    parts = [arrays[what + suffix] for suffix in suffixes if what + suffix in arrays]
    if not parts:
        return None
    if len(parts) != len(suffixes):
        raise PartitaError(f"{path}: {what} is there for only one of {' and '.join(what + s for s in suffixes)}.")
    if len({part.shape[1:] for part in parts}) > 1:
        shapes = " and ".join(str(part.shape) for part in parts)
        raise PartitaError(f"{path}: {what} of train and test do not fit together: {shapes}.")
    return np.concatenate(parts)
