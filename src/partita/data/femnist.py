"""FEMNIST. Caldas et al., 2018 (LEAF), https://arxiv.org/abs/1812.01097"""

import numpy as np
import numpy.typing as npt

from ..arrays import reading
from ..errors import PartitaError
from ..pool import Array, Pool, pool
from ._images import Gray, normalize
from ._leaf import User, leaf_folder, read_leaf
from ._named import stored

CLASSES = 62
SHAPE = (1, 28, 28)


def femnist(*, normalization: Gray = "half") -> Pool:
    """FEMNIST: handwritten digits and letters of 28 x 28 pixels by writer, 62 classes, from LEAF's JSON files."""
    return normalize(stored("femnist", classes=CLASSES, shape=SHAPE) or _read(), normalization)


def _read() -> Pool:
    users, divided = read_leaf(leaf_folder("femnist"))
    counts = [len(user.targets) for user in users]
    return pool(
        "femnist",
        _joined([_pixels(user) for user in users if user.targets]),
        np.concatenate([_labels(user) for user in users]),
        classes=CLASSES,
        clients=np.repeat([user.name for user in users], counts),
        official_test=np.repeat([user.test for user in users], counts) if divided else None,
    )


def _pixels(user: User) -> Array:
    """A writer's images: as bytes where they were made of bytes, which takes a quarter of the memory."""
    with reading(user.where, "rows of 784 numbers"):
        values = np.array(user.inputs, dtype=np.float32).reshape(len(user.targets), *SHAPE)
    if not ((values >= 0) & (values <= 1)).all():
        raise PartitaError(f"{user.where}: pixels must be numbers from 0 to 1.")
    steps = np.rint(values * 255)
    return steps.astype(np.uint8) if np.abs(values * 255 - steps).max() < 1e-2 else values


def _joined(parts: list[Array]) -> Array:
    if any(part.dtype != np.uint8 for part in parts):
        parts = [np.divide(part, 255, dtype=np.float32) if part.dtype == np.uint8 else part for part in parts]
    return np.concatenate(parts)


def _labels(user: User) -> npt.NDArray[np.int64]:
    for row, label in enumerate(user.targets):
        if not isinstance(label, int) or not 0 <= label < CLASSES:
            raise PartitaError(f"{user.where}: label {label!r} of row {row} is not a number from 0 to {CLASSES - 1}.")
    return np.array(user.targets, dtype=np.int64)
