"""FedBN. Li et al., 2021, https://arxiv.org/abs/2102.07623"""

from ..core.algorithm import Algorithm
from ..core.optimizers import SGD
from ..core.selectors import NORM
from ..core.signatures import Length, configurable
from .fedsim import fedsim


@configurable
def fedbn(*, epochs: Length = 1, optimizer: SGD = SGD(0.01)) -> Algorithm:
    """Keep norm layers with their statistics; share all other layers."""
    return fedsim(personal=NORM, epochs=epochs, optimizer=optimizer)
