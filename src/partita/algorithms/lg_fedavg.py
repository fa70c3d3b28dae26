"""LG-FedAvg. Liang et al., 2020, https://arxiv.org/abs/2001.01523"""

from ..core.algorithm import Algorithm
from ..core.optimizers import SGD
from ..core.selectors import NETWORK, last_blocks
from ..core.signatures import Count, Length, configurable
from .fedsim import fedsim


@configurable
def lg_fedavg(*, blocks: Count = 1, epochs: Length = 1, optimizer: SGD = SGD(0.001)) -> Algorithm:
    """Share the last blocks, keep the body, train both together. Meant to start from a FedAvg model (`pretrain`).

    The shared blocks are averaged by samples, as FedAvg averages a whole network. The published code divides by the
    number of clients, all of one size there: `averaging(weights="uniform")` as the server.
    """
    return fedsim(personal=NETWORK & ~last_blocks(blocks), epochs=epochs, optimizer=optimizer)
