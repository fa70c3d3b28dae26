"""Weighted averaging, followed by an optimizer of the server."""

from typing import Literal

from ..core.optimizers import SGD, Optimizer
from ..core.server import Averaging, Server


def averaging(
    *, optimizer: Optimizer = SGD(1.0), weights: Literal["samples", "uniform", "batches"] = "samples"
) -> Server:
    """Follow the weighted mean of the clients' changes with an optimizer; SGD with rate 1 is their average."""
    return Averaging(optimizer, weights)
