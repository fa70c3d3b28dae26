"""Per-FedAvg. Fallah et al., 2020, https://arxiv.org/abs/2002.07948"""

import warnings

from ..core.algorithm import Algorithm
from ..core.gradients import Difference, HessianFree, Meta
from ..core.optimizers import SGD, Optimizer
from ..core.phases import Phase
from ..core.selectors import NETWORK
from ..core.signatures import Length, Rate, configurable
from ..errors import DegenerateWarning


@configurable
def per_fedavg(
    *, alpha: Rate = 0.01, epochs: Length = 1, optimizer: Optimizer = SGD(0.1), adapt_steps: Length | None = 1,
    adapt_epochs: Length | None = None, delta: Difference | None = None,
) -> Algorithm:  # fmt: skip
    """Learn weights from which a step of size alpha leads to a good model; make that step before use.

    A step of the paper's first-order variant (FO) takes two batches: w moves by v = grad f(w - alpha grad f(w; D); D').
    With `delta` it is the Hessian-free one (HF), which takes three batches and four gradients: w moves by
    v - alpha (grad f(w + delta v; D'') - grad f(w - delta v; D'')) / (2 delta).
    """
    gradient = Meta(alpha) if delta is None else HessianFree(alpha, delta)
    if alpha == 0:
        message = f"Per-FedAvg with alpha = 0 is FedAvg on one batch of {gradient.batches}. Set alpha > 0."
        warnings.warn(message, DegenerateWarning, stacklevel=3)
    return Algorithm(
        phases=(Phase(NETWORK, optimizer, epochs=epochs, gradient=gradient),),
        finetune=(Phase(NETWORK, SGD(alpha), epochs=adapt_epochs, steps=adapt_steps),),
    )
