"""Handwritten digits, 8 x 8 pixels: 1,797 samples of 10 classes, embedded in scikit-learn."""

import numpy as np
from sklearn.datasets import load_digits

from ..pool import Pool, pool


def digits() -> Pool:
    """Handwritten digits of 8 x 8 pixels: 1,797 samples of 10 classes, embedded in scikit-learn."""
    pixels, labels = load_digits(return_X_y=True)
    return pool("digits", (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8), labels, classes=10)
