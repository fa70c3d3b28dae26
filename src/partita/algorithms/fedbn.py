"""FedBN. Li et al., 2021, https://arxiv.org/abs/2102.07623"""

from dataclasses import replace

from ..algorithm import Algorithm
from ..optimizers import SGD
from ..selectors import NORM
from .fedsim import fedsim


def fedbn(*, epochs: int = 1, optimizer: SGD = SGD(0.01)) -> Algorithm:
    """Keep norm layers with their statistics, share all else."""
    return replace(fedsim(personal=NORM, epochs=epochs, optimizer=optimizer), name="fedbn")
