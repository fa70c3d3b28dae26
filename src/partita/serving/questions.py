"""What is a model asked? Rows of an .npz, .npy, .csv, .jsonl or .txt file, or pictures; maybe with labels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..data.arrays import load_npy, load_npz, reading
from ..data.datasets import array_of, texts_of
from ..data.pool import Array
from ..data.tables import columns_of, open_text, plain_rows, rows_of
from ..errors import PartitaError
from ..evaluation.prediction.inputs import Inputs
from ..extras import optional

PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
FORMS = "an .npz, .npy, .csv, .jsonl or .txt file, a picture, or a folder of pictures"


@dataclass(frozen=True, eq=False)
class Questions:
    """Inputs as a model takes them, a name for each, and the right answers where the file has them."""

    inputs: Array | list[str]
    names: Sequence[str]
    answers: Sequence[str] | None = None
    where: str = "The request"
    """The source of the inputs, for errors."""

    def __len__(self) -> int:
        return len(self.names)


def read_questions(path: Path, inputs: Inputs, label_column: str = "label") -> Questions:
    """The inputs in a file or folder, for a model with this signature.

    An .npz file has x and maybe y; a table has a column for each number, or one of texts (of several columns, `text`),
    and maybe one of labels; a .txt file has a text in each line; a folder has pictures, or a folder of pictures for
    each label.
    """
    if not path.exists():
        raise PartitaError(f"There is no file or folder {path}.")
    form = path.name.lower().removesuffix(".gz")
    if path.is_dir() or form.endswith(PICTURES):
        found = _pictures(path, inputs)
    elif form.endswith(".npz"):
        found = _archive(path)
    elif form.endswith(".npy"):
        found = _numbered(load_npy(path), None)
    elif form.endswith(".txt"):
        with reading(path, "text"), open_text(path) as stream:
            lines = [(str(at), line.rstrip("\r\n")) for at, line in enumerate(stream, 1) if line.strip()]
        found = Questions([text for _, text in lines], [at for at, _ in lines])
    elif form.endswith((".csv", ".jsonl", ".json")):
        found = _texts(path, label_column) if inputs.words is not None else _table(path, label_column)
    else:
        raise PartitaError(f"{path} has none of the known forms. Give {FORMS}.")
    if not len(found):
        raise PartitaError(f"{path} has no rows.")
    return replace(found, where=str(path))


def questions_of(inputs: Any, answers: Any = None, where: str = "The data") -> Questions:
    """Inputs and maybe the right answers that are in Python: arrays, tensors or lists."""
    given = texts_of(inputs)
    values = array_of(inputs, where) if given is None else given
    names = [str(row) for row in range(len(values))]
    if answers is None:
        return Questions(values, names, where=where)
    told = [str(each) for each in array_of(answers, where).tolist()]
    if len(told) != len(names):
        raise PartitaError(f"{where}: {len(names)} inputs, but {len(told)} labels. They must be of the same length.")
    return Questions(values, names, told, where)


def _archive(path: Path) -> Questions:
    arrays = load_npz(path)
    if "x" not in arrays:
        raise PartitaError(f"{path} has no x; it has {', '.join(sorted(arrays)) or 'nothing'}.")
    answers = arrays.get("y")
    if answers is not None and (answers.ndim != 1 or len(answers) != len(arrays["x"])):
        raise PartitaError(
            f"{path}: y has shape {answers.shape}, but x has {len(arrays['x'])} rows. Give one label for each row."
        )
    return _numbered(arrays["x"], answers)


def _numbered(values: Array, answers: Array | None) -> Questions:
    if values.ndim == 0:
        raise PartitaError("The inputs are one number. The first dimension counts the inputs.")
    given = values.tolist() if values.dtype.kind == "U" else values
    return Questions(
        given, [str(row) for row in range(len(values))], None if answers is None else list(map(str, answers.tolist()))
    )


def _texts(path: Path, label_column: str) -> Questions:
    others = [name for name in columns_of(path) if name != label_column]
    # A column that is alone beside the labels needs no certain name.
    rows = list(rows_of(path, others if len(others) == 1 else ["text"], [label_column]))
    labels = [label for _, (_, label) in rows]
    return Questions([text for _, (text, _) in rows], [str(line) for line, _ in rows], labels if all(labels) else None)


def _table(path: Path, label_column: str) -> Questions:
    if path.name.removesuffix(".gz").endswith(("json", "jsonl")):
        raise PartitaError(f"{path}: the model takes numbers. Give them as .csv, .npz or .npy.")
    with reading(path, "text"), open_text(path) as stream:
        lines = list(plain_rows(stream, path))
    if not lines:
        raise PartitaError(f"{path} has no rows.")
    head = [name.strip() for name in lines[0][1]]
    place = head.index(label_column) if label_column in head else None
    rows: list[list[float]] = []
    for line, row in lines[1:]:
        if len(row) != len(head):
            raise PartitaError(f"{path}, line {line}: {len(row)} values for {len(head)} columns.")
        try:
            rows.append([float(value) for at, value in enumerate(row) if at != place])
        except ValueError as problem:
            raise PartitaError(
                f"{path}, line {line}: {problem}. Give numbers, with names of columns in the first line."
            ) from None
    answers = None if place is None else [row[place].strip() for _, row in lines[1:]]
    return Questions(np.array(rows), [str(line) for line, _ in lines[1:]], answers)


def _pictures(path: Path, inputs: Inputs) -> Questions:
    if inputs.type == "indices" or len(inputs.shape) != 3 or inputs.shape[0] not in (1, 3):
        raise PartitaError(
            f"{path} holds pictures, but the model takes {inputs}. Give them in a file of arrays or a table."
        )
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.suffix.lower() in PICTURES)
    if not files:
        raise PartitaError(f"{path} holds no pictures ({', '.join(PICTURES)}).")
    library = optional("PIL.Image", "partita[images]")
    pixels = np.stack([_pixels(library, file, inputs) for file in files])
    labelled = path.is_dir() and all(len(file.relative_to(path).parts) == 2 for file in files)
    return Questions(
        pixels,
        [file.name if path.is_file() else file.relative_to(path).as_posix() for file in files],
        [file.parent.name for file in files] if labelled else None,
    )


def _pixels(library: Any, file: Path, inputs: Inputs) -> Array:
    """A picture in the size and channels that the model takes: bytes, or numbers from 0 to 1."""
    channels, height, width = inputs.shape
    with reading(file, "a picture"):
        try:
            with library.open(file) as picture:
                colours = picture.convert("L" if channels == 1 else "RGB")
                if colours.size != (width, height):
                    colours = colours.resize((width, height), library.Resampling.BILINEAR)
                values = np.asarray(colours)
        except Exception as problem:
            # Pillow raises many kinds, one of them for pictures that would fill the memory.
            raise ValueError(str(problem) or type(problem).__name__) from problem
    pixels = values[None] if channels == 1 else values.transpose(2, 0, 1)
    return pixels if inputs.type == "bytes" else pixels / 255
