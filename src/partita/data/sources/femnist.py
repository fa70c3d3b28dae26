"""FEMNIST. Caldas et al., 2018 (LEAF), https://arxiv.org/abs/1812.01097"""

from collections.abc import Iterable, Iterator
from itertools import groupby

import numpy as np
import numpy.typing as npt

from ...errors import PartitaError
from ..arrays import reading
from ..download import Remote
from ..pool import Array, Pool, pool
from ..source import source
from ._characters import CHARACTERS
from ._examples import find_database, read_examples
from ._images import Gray, normalize
from ._leaf import User, leaf_folder, read_leaf
from ._named import stored

# TensorFlow Federated serves LEAF's images by writer and publishes no checksum of them. Size and SHA-256 are from the
# notes of a public replication (July 2026), not from the publisher: they show that everybody gets the same file as that
# replication, not that it is the file that was published.
DATABASE = Remote(
    "femnist/emnist_all.sqlite.lzma",
    "https://storage.googleapis.com/tff-datasets-public/emnist_all.sqlite.lzma",
    sha256="c3aaf91b4cf4e69d53d81627ad119eccdc878ff906f68e66063ff10f67faad48",
    size=170_507_172,
)
CLASSES = len(CHARACTERS)
SHAPE = (1, 28, 28)


@source
def femnist(*, normalization: Gray = "half") -> Pool:
    """FEMNIST: handwritten digits and letters of 28 x 28 pixels by writer, 62 classes.

    From LEAF's JSON files, or from TensorFlow Federated's database of the same images, which is unpacked to 4.7 GB.
    """
    pool = stored("femnist", classes=CLASSES, shape=SHAPE) or _read()
    return normalize(pool.named(CHARACTERS), normalization)


def _read() -> Pool:
    folder = leaf_folder("femnist")
    return _joined(_database_users(), divided=True) if folder is None else _joined(*read_leaf(folder))


def _database_users() -> Iterator[User]:
    path = find_database("femnist", DATABASE)
    for split, test in (("all_train", False), ("all_test", True)):
        for name, rows in groupby(read_examples(path, split, ["pixels", "label"]), key=lambda row: row[0]):
            features = [values for _, values in rows]
            yield User(
                f"{path}, user {name}",
                name,
                test,
                [pixels for pixels, _ in features],
                [int(label) for _, labels in features for label in labels],
            )


def _joined(users: Iterable[User], divided: bool) -> Pool:
    pixels, labels, names, tested = [], [], [], []
    for user in users:
        if user.targets:
            pixels.append(_pixels(user))
            labels.append(_labels(user))
            names += [user.name] * len(user.targets)
            tested += [user.test] * len(user.targets)
    return pool(
        "femnist",
        _stacked(pixels),
        np.concatenate(labels),
        classes=CLASSES,
        clients=np.array(names),
        official_test=np.array(tested) if divided else None,
    )


def _pixels(user: User) -> Array:
    """A writer's images: as bytes where they were made of bytes, which takes a quarter of the memory."""
    with reading(user.where, "rows of 784 numbers"):
        values = np.array(user.inputs, dtype=np.float32).reshape(len(user.targets), *SHAPE)
    if not ((values >= 0) & (values <= 1)).all():
        raise PartitaError(f"{user.where}: pixels must be numbers from 0 to 1.")
    steps = np.rint(values * 255)
    return steps.astype(np.uint8) if np.abs(values * 255 - steps).max() < 1e-2 else values


def _stacked(parts: list[Array]) -> Array:
    if any(part.dtype != np.uint8 for part in parts):
        parts = [np.divide(part, 255, dtype=np.float32) if part.dtype == np.uint8 else part for part in parts]
    return np.concatenate(parts)


def _labels(user: User) -> npt.NDArray[np.int64]:
    for row, label in enumerate(user.targets):
        if not isinstance(label, int) or not 0 <= label < CLASSES:
            raise PartitaError(f"{user.where}: label {label!r} of row {row} is not a number from 0 to {CLASSES - 1}.")
    return np.array(user.targets, dtype=np.int64)
