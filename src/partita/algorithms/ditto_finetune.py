"""Ditto as a fine-tuning. Pillutla et al., 2022, https://arxiv.org/abs/2204.03809"""

from ..core.algorithm import Algorithm
from ..core.optimizers import SGD, Optimizer
from ..core.penalties import Proximal
from ..core.selectors import NETWORK
from ..core.signatures import Length, Strength, configurable
from .fedavg import fedavg
from .finetune import finetune


@configurable
def ditto_finetune(
    *, strength: Strength = 0.1, epochs: Length = 5, optimizer: Optimizer = SGD(0.01), on: Algorithm = fedavg()
) -> Algorithm:
    """Fine-tune all weights before use, pulled towards the received ones by strength * |v - w|^2 (no factor 1/2)."""
    return finetune(on=on, part=NETWORK, epochs=epochs, optimizer=optimizer, penalty=Proximal(2 * strength))
