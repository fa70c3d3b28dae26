"""MNIST with the writer of every digit. Yadav and Bottou, 2019 (QMNIST), https://arxiv.org/abs/1905.10498"""

from dataclasses import replace

from ..pool import Pool
from ._images import Gray, normalize
from ._named import absent, stored


def mnist_writers(*, official: bool = False, normalization: Gray = "half") -> Pool:
    """MNIST by writer, from mnist_writers.npz; its official test set is of other writers and kept only on demand."""
    pool = stored("mnist_writers", classes=10, shape=(1, 28, 28))
    if pool is None:
        raise absent("mnist_writers")
    return normalize(pool if official else replace(pool, official_test=None), normalization)
