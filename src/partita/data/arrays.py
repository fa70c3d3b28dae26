"""How are arrays read from files? Without unpickling anything, and with errors that name file and key."""

import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tarfile import TarError
from typing import Literal

import numpy as np
from numpy.lib import format as npy

from ..core.objectives import Problem
from ..errors import PartitaError
from .pool import Array, Pool, pool
from .text import text_pool

Units = Literal["words", "characters"]

# What the readers of numpy and the standard library raise on a damaged file.
_DAMAGE = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    KeyError,
    RuntimeError,
    MemoryError,
    SyntaxError,
    struct.error,
    zlib.error,
    zipfile.BadZipFile,
    TarError,
)

MOST_UNPACKED, MOST_RATIO = 1 << 30, 200
"""Bytes that any file may unpack to, and how many times its own size a larger one may."""


@contextmanager
def reading(path: Path | str, form: str) -> Iterator[None]:
    """Turn any error of reading a file into one that names the file."""
    try:
        yield
    except FileNotFoundError as problem:
        raise PartitaError(f"There is no file {problem.filename or path}.") from problem
    except _DAMAGE as problem:
        raise PartitaError(
            f"{path} cannot be read as {form}: {str(problem) or type(problem).__name__}. Is it damaged or truncated? "
            "Then remove it and get it again."
        ) from problem


@contextmanager
def naming(path: Path | str) -> Iterator[None]:
    """Errors about the content of a file name the file."""
    try:
        yield
    except PartitaError as problem:
        if str(path) in str(problem):
            raise
        raise PartitaError(f"{path}: {problem}") from problem


def check_unpacked(where: Path | str, packed: int, unpacked: int) -> None:
    """Refuse a small file that unpacks to so much that it would fill memory or disk."""
    if unpacked > max(MOST_UNPACKED, MOST_RATIO * packed):
        raise PartitaError(
            f"{where} is refused: its {packed} bytes unpack to {unpacked} or more. Files may unpack to "
            f"{MOST_UNPACKED >> 20} MB, or to {MOST_RATIO} times their size."
        )


def open_zip(path: Path) -> zipfile.ZipFile:
    """Open a zip file, unless its members together are too large; `zipfile` reads no more than a member declares."""
    archive = zipfile.ZipFile(path)
    try:
        check_unpacked(path, path.stat().st_size, sum(member.file_size for member in archive.infolist()))
    except PartitaError:
        archive.close()
        raise
    return archive


def load_npz(path: Path) -> dict[str, Array]:
    """Read every array of an .npz file; pickled objects are refused."""
    # Opened here, since numpy leaves a file open that it cannot read.
    with reading(path, "an .npz file of plain arrays (pickled objects are refused)"), path.open("rb") as stream:
        if stream.read(2) != b"PK":
            raise ValueError("it is not an archive as numpy.savez writes it")
        open_zip(path).close()
        stream.seek(0)
        with np.load(stream, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}


def load_npy(path: Path) -> Array:
    """Read the array of an .npy file; pickled objects are refused."""
    with reading(path, "an .npy file of a plain array (pickled objects are refused)"), path.open("rb") as stream:
        return npy.read_array(stream, allow_pickle=False)


def read_npz(
    path: Path,
    *,
    name: str | None = None,
    kind: Problem = "classification",
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
            f"{path} has neither x nor x_train and x_test; it has {', '.join(sorted(arrays)) or 'nothing'}. Call the "
            "inputs x, the targets y, and the client of each row client."
        )
    joined = {what: _joined(arrays, what, suffixes, path) for what in ("x", "y", "client")}
    inputs = joined["x"]
    assert inputs is not None
    tested = np.arange(len(inputs)) >= len(arrays["x_train"]) if len(suffixes) == 2 else None
    with naming(path):
        return assemble(
            name or path.stem,
            inputs,
            joined["y"],
            kind=kind,
            text=text,
            classes=classes,
            clients=joined["client"],
            official_test=tested,
        )


def assemble(
    name: str,
    inputs: Array,
    targets: Array | None,
    *,
    kind: Problem = "classification",
    text: Units = "words",
    classes: int | None = None,
    clients: Array | None = None,
    official_test: Array | None = None,
) -> Pool:
    """A pool of numbers or of texts, whichever the inputs are."""
    if inputs.dtype.kind == "U":
        return text_pool(
            name,
            inputs.tolist(),
            targets,
            kind=kind,
            characters=text == "characters",
            clients=clients,
            official_test=official_test,
            classes=classes,
        )
    if targets is None:
        raise PartitaError(
            f"{name}: there are inputs, but no targets. Give targets; only texts can do without, to predict the next "
            "word."
        )
    return pool(name, inputs, targets, classes=classes, kind=kind, clients=clients, official_test=official_test)


def stack(parts: Sequence[tuple[str, Array]]) -> Array:
    """Concatenate arrays; the error names those that do not fit together."""
    first, like = parts[0]
    for where, part in parts:
        if part.ndim == 0 or part.shape[1:] != like.shape[1:] or _form(part) != _form(like):
            raise PartitaError(
                f"{where} does not fit {first}: {part.dtype} of shape {part.shape}, and {like.dtype} of shape "
                f"{like.shape}. Rows must be of one shape and type."
            )
    return np.concatenate([part for _, part in parts])


def _form(values: Array) -> str:
    """The form of values. Forms are not mixed: bytes (scaled to 0..1), other numbers, and text."""
    return (
        "bytes" if values.dtype == np.uint8 and values.ndim > 1 else "text" if values.dtype.kind == "U" else "numbers"
    )


def _joined(arrays: dict[str, Array], what: str, suffixes: tuple[str, ...], path: Path) -> Array | None:
    keys = [what + suffix for suffix in suffixes]
    found = [key for key in keys if key in arrays]
    if not found:
        return None
    if len(found) != len(keys):
        raise PartitaError(
            f"{path} has {found[0]}, but not {next(key for key in keys if key not in found)}. Give both or neither."
        )
    joined = stack([(f"{path}: {key}", arrays[key]) for key in keys])
    for key, suffix in zip(keys, suffixes, strict=True):
        # Compared part by part: two wrong lengths can have the right sum.
        if len(arrays[key]) != len(arrays["x" + suffix]):
            raise PartitaError(
                f"{path}: {key} has {len(arrays[key])} rows, but x{suffix} has {len(arrays['x' + suffix])}. They must "
                "be of the same length."
            )
    return joined
