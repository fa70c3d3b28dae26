"""FedAvg. McMahan et al., 2017, https://arxiv.org/abs/1602.05629"""

from ..algorithm import Algorithm, method
from ..optimizers import SGD, Optimizer
from ..phases import Phase
from ..selectors import NETWORK


@method
def fedavg(*, epochs: int = 1, optimizer: Optimizer = SGD(0.1)) -> Algorithm:
    """Train the whole network locally, average it."""
    return Algorithm(phases=(Phase(NETWORK, optimizer, epochs=epochs),))
