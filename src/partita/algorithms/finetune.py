"""Fine-tuning before use, after any method."""

from dataclasses import replace

from ..core.algorithm import Algorithm
from ..core.optimizers import SGD, Optimizer
from ..core.penalties import Penalty
from ..core.phases import Phase
from ..core.selectors import NETWORK, Selector
from ..core.signatures import Length, configurable
from .fedavg import fedavg


@configurable
def finetune(
    *,
    on: Algorithm = fedavg(),
    part: Selector | None = None,
    epochs: Length = 5,
    optimizer: Optimizer = SGD(0.001, momentum=0.9),
    penalty: Penalty | None = None,
) -> Algorithm:
    """Train a copy on the client's data before it is used: the personal part, or all where nothing is personal."""
    chosen = part or on.personal or NETWORK
    tuning = Phase(on.view.place(chosen), optimizer, epochs=epochs, view=on.view, penalty=penalty)
    return replace(on, finetune=(*on.finetune, tuning))
