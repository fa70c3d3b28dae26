"""How do the columns of a data frame become inputs, targets and client ids? Of pandas, or of a library like it."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import PartitaError, unknown
from .datasets import Inputs, array_of, texts_of
from .pool import Array


class Frame(Protocol):
    """What is used of a data frame of pandas, or of another library that has the same."""

    @property
    def columns(self) -> Any: ...
    def to_numpy(self) -> Any: ...
    def __getitem__(self, column: Any, /) -> Any: ...


def is_frame(data: object) -> bool:
    """Whether it has the methods of a data frame; no such library need be installed."""
    return hasattr(data, "columns") and hasattr(data, "to_numpy")


def columns_of(frame: Any, target: Any, client: Any, name: str) -> tuple[Inputs, Array | None, Array]:
    """Features, targets and client ids of a data frame."""
    columns = list(frame.columns)
    for what, column in (("targets", target), ("clients", client)):
        if column is not None and not (isinstance(column, str | int) and column in columns):
            known = unknown("column", str(column), map(str, columns))
            raise PartitaError(f"{name}: {what} must name a column of the data frame. {known}")
    features = [column for column in columns if column not in (target, client)]
    if not features:
        raise PartitaError(
            f"{name}: the data frame has no column of features, only {target!r} and {client!r}. Add the inputs."
        )
    labels = None if target is None else _column(frame, target, name)
    texts = texts_of(_column(frame, features[0], name))
    if texts is not None and len(features) == 1:
        return texts, labels, _column(frame, client, name)
    values = [_feature(frame, column, name) for column in features]
    return np.stack(values, axis=1), labels, _column(frame, client, name)


def _column(frame: Any, column: Any, name: str) -> Array:
    found = array_of(frame[column], f"{name}, column {column!r}")
    if found.ndim != 1:
        raise PartitaError(f"{name}: there are several columns {column!r}. Give each a name of its own.")
    return found


def _feature(frame: Any, column: Any, name: str) -> npt.NDArray[np.float64]:
    values = _column(frame, column, name)
    if values.dtype.kind not in "biuf":
        raise PartitaError(
            f"{name}: column {column!r} is of type {values.dtype}, and features must be numbers. Leave it out, or make "
            "numbers of it (in pandas: get_dummies)."
        )
    numbers = values.astype(np.float64)
    if len(wrong := np.flatnonzero(~np.isfinite(numbers))):
        raise PartitaError(
            f"{name}: column {column!r} has no finite number in row {wrong[0]} ({len(wrong)} such rows). Fill them in, "
            "or leave the rows out."
        )
    return numbers
