"""Data sets of the Hugging Face library `datasets`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...core.objectives import Problem
from ...errors import PartitaError, unknown
from ...extras import optional
from ..arrays import Units, assemble, stack
from ..pool import Array, Pool
from ..source import source


@source
def huggingface(
    *,
    path: str,
    configuration: str | None = None,
    train_split: str = "train",
    test_split: str | None = None,
    input_column: str = "image",
    label_column: str | None = "label",
    client_column: str | None = None,
    kind: Problem = "classification",
    text: Units = "words",
) -> Pool:
    """A data set of Hugging Face by its name there, or a folder that save_to_disk wrote; needs the extra hf."""
    library = optional("datasets", "partita[hf]")
    loaded = _load(library, path, configuration)
    splits = [train_split] if test_split is None else [train_split, test_split]
    if len(splits) == 2 and not isinstance(loaded, dict):
        raise PartitaError(f"{path} is a single part, without a split {test_split!r}. Omit test_split.")
    parts = [_part(loaded, split, path) for split in splits]
    columns = [column for column in (input_column, label_column, client_column) if column is not None]
    for column in columns:
        for part in parts:
            if column not in part.column_names:
                raise PartitaError(f"{path}: {unknown('column', column, part.column_names)}")
    targets, classes, names = _labels(parts, label_column, kind) if label_column else (None, None, ())
    counts = [len(part) for part in parts]
    made = assemble(
        Path(path).name,
        _inputs(parts, input_column, path),
        targets,
        kind=kind,
        text=text,
        classes=classes,
        clients=np.array([str(each) for part in parts for each in part[client_column]]) if client_column else None,
        official_test=np.repeat([False, True], counts) if test_split is not None else None,
    )
    return made.named(names)


def _load(library: Any, path: str, configuration: str | None) -> Any:
    written = Path(path) / "dataset_info.json", Path(path) / "dataset_dict.json"
    try:
        if any(each.exists() for each in written):
            return library.load_from_disk(path)
        return library.load_dataset(path, configuration)
    except Exception as problem:
        # The library raises many kinds, of its own and of the network.
        raise PartitaError(f"The data set {path!r} cannot be loaded: {problem}") from problem


def _part(loaded: Any, split: str, path: str) -> Any:
    if not isinstance(loaded, dict):
        # A single part that save_to_disk wrote.
        return loaded
    if split not in loaded:
        raise PartitaError(f"{path}: {unknown('split', split, loaded)}")
    return loaded[split]


def _inputs(parts: list[Any], column: str, path: str) -> Array:
    values = [value for part in parts for value in part[column]]
    if values and isinstance(values[0], str):
        return np.array(values)
    return stack([(f"{path}: {column} of row {row}", np.asarray(value)[None]) for row, value in enumerate(values)])


def _labels(parts: list[Any], column: str, kind: Problem) -> tuple[Array, int | None, Sequence[str]]:
    """The labels, and the number and names of the classes where the data set says them."""
    labels = [label for part in parts for label in part[column]]
    if labels and isinstance(labels[0], str):
        return np.array(labels, dtype=object), None, ()
    feature = parts[0].features[column] if kind == "classification" else None
    return np.array(labels), getattr(feature, "num_classes", None), getattr(feature, "names", None) or ()
