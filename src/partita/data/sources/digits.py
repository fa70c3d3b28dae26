"""Handwritten digits, 8 x 8 pixels: 1,797 samples of 10 classes, embedded in scikit-learn."""

from importlib.metadata import distribution

import numpy as np
import numpy.typing as npt

from ..pool import Pool, pool
from ..source import source
from ._characters import DIGITS


@source
def digits() -> Pool:
    """Handwritten digits of 8 x 8 pixels: 1,797 samples of 10 classes, embedded in scikit-learn."""
    images, values = read_digits()
    return pool("digits", images, values, classes=10).named(DIGITS)


def read_digits() -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """The images with one channel, from 0 to 1, and the digit of each."""
    # The file itself: the package around it takes longer to import than to read this.
    table = np.loadtxt(
        str(distribution("scikit-learn").locate_file("sklearn/datasets/data/digits.csv.gz")), delimiter=","
    )
    pixels, values = table[:, :-1], table[:, -1].astype(np.int64)
    return (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8), values
