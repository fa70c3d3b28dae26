"""The weighted mean. McMahan et al., 2017, https://arxiv.org/abs/1602.05629; Reddi et al., 2021, https://arxiv.org/abs/2003.00295"""

from ..core.optimizers import SGD, Optimizer
from ..core.server import Aggregation, Mean, Weights
from ..core.signatures import configurable


@configurable
def averaging(*, optimizer: Optimizer = SGD(1.0), weights: Weights = "samples") -> Aggregation:
    """Follow the weighted mean of the clients' changes with an optimizer.

    SGD with rate 1 is their average; adam, yogi and adagrad make FedAdam, FedYogi and FedAdagrad, momentum FedAvgM.
    """
    return Aggregation(Mean(weights), optimizer=optimizer)
