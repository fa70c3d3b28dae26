"""Handwritten digits, 8 x 8 pixels: 1,797 samples of 10 classes, embedded in scikit-learn."""

from importlib.metadata import distribution

import numpy as np

from ..pool import Pool, pool
from ..source import source
from ._characters import DIGITS


@source
def digits() -> Pool:
    """Handwritten digits of 8 x 8 pixels: 1,797 samples of 10 classes, embedded in scikit-learn."""
    # The file itself: the package around it takes longer to import than to read this.
    table = np.loadtxt(
        str(distribution("scikit-learn").locate_file("sklearn/datasets/data/digits.csv.gz")), delimiter=","
    )
    pixels, labels = table[:, :-1], table[:, -1].astype(np.int64)
    return pool("digits", (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8), labels, classes=10).named(DIGITS)
