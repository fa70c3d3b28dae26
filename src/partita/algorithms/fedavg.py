"""FedAvg. McMahan et al., 2017, https://arxiv.org/abs/1602.05629"""

from ..core.algorithm import Algorithm
from ..core.optimizers import SGD, Optimizer
from ..core.phases import Phase
from ..core.selectors import NETWORK
from ..core.signatures import Length, configurable


@configurable
def fedavg(*, epochs: Length = 1, optimizer: Optimizer = SGD(0.1)) -> Algorithm:
    """Train the whole network locally, average it."""
    return Algorithm(phases=(Phase(NETWORK, optimizer, epochs=epochs),))
