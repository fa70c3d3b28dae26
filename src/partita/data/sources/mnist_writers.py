"""MNIST with the writer of every digit. Yadav and Bottou, 2019 (QMNIST), https://arxiv.org/abs/1905.10498"""

from dataclasses import replace

import numpy as np

from ...errors import PartitaError
from ..download import Remote, find, obtain
from ..pool import Pool
from ..source import source
from ._characters import DIGITS
from ._files import read_bytes
from ._idx import Whole, idx_pool, parse_whole_idx
from ._images import Gray, normalize
from ._named import check_shape, stored
from .mnist import FILES, SHAPE, read_part

HOME = "https://raw.githubusercontent.com/facebookresearch/qmnist/master/"
# The MD5 sums are those of torchvision's QMNIST.
LABELS = {
    "qmnist-train-labels-idx2-int.gz": "0058f8dd561b90ffdd0f734c6a30e5e4",
    "qmnist-test-labels-idx2-int.gz": "5b5b05890a5e13444e108efe57b788aa",
}
DIGIT, WRITER = 0, 2
"""Columns of QMNIST's labels."""


@source
def mnist_writers(*, official: bool = False, normalization: Gray = "half") -> Pool:
    """MNIST by writer, from QMNIST's labels; its official test set is of other writers and kept only on demand."""
    pool = (stored("mnist_writers", classes=10, shape=SHAPE) or _read()).named(DIGITS)
    return normalize(pool if official else replace(pool, official_test=None), normalization)


def _read() -> Pool:
    train_images, train_labels, test_images, test_labels = map(read_part, FILES)
    writers = [_writers(file, labels) for file, labels in zip(LABELS, (train_labels, test_labels), strict=True)]
    pool = idx_pool(
        "mnist_writers",
        [(train_images, train_labels), (test_images, test_labels)],
        classes=10,
        clients=np.concatenate(writers),
    )
    check_shape(pool, SHAPE)
    return pool


def _writers(file: str, labels: np.ndarray) -> Whole:
    """The writer of each digit; QMNIST's test set begins with MNIST's and continues."""
    path = find(f"mnist_writers/{file}", f"qmnist/{file}", file)
    path = path or obtain([Remote(f"mnist_writers/{file}", HOME + file, LABELS[file])])[0]
    table = parse_whole_idx(read_bytes(path), path, 2)[: len(labels)]
    if table.shape[1] <= WRITER or not np.array_equal(table[:, DIGIT], labels):
        raise PartitaError(
            f"{path}: its digits are not those of MNIST. Is it QMNIST's file of that name? Get it again."
        )
    return table[:, WRITER]
