"""Per-FedAvg, first order. Fallah et al., 2020, https://arxiv.org/abs/2002.07948"""

import warnings

from ..core.algorithm import Algorithm
from ..core.gradients import Meta
from ..core.optimizers import SGD, Optimizer
from ..core.phases import Phase
from ..core.selectors import NETWORK
from ..errors import DegenerateWarning
from ..signatures import Length, Rate, configurable


@configurable
def per_fedavg(
    *, alpha: Rate = 0.01, epochs: Length = 1, optimizer: Optimizer = SGD(0.1), adapt_steps: Length | None = 1,
    adapt_epochs: Length | None = None,
) -> Algorithm:  # fmt: skip
    """Learn weights from which a step of size alpha leads to a good model; make that step before use."""
    if alpha == 0:
        warnings.warn("Per-FedAvg with alpha = 0 is FedAvg on every second batch.", DegenerateWarning, stacklevel=3)
    return Algorithm(
        phases=(Phase(NETWORK, optimizer, epochs=epochs, gradient=Meta(alpha)),),
        finetune=(Phase(NETWORK, SGD(alpha), epochs=adapt_epochs, steps=adapt_steps),),
    )
