"""FedBABU. Oh et al., 2022, https://arxiv.org/abs/2106.06042"""

from dataclasses import replace

from ..core.algorithm import Algorithm
from ..core.initialization import HeadInit, with_head
from ..core.optimizers import SGD, Optimizer
from ..core.phases import Phase
from ..core.schedules import DECAY
from ..core.selectors import BODY, HEAD, NETWORK, NOTHING, Selector, first_blocks
from ..core.signatures import Length, Positive, Rate, configurable


@configurable
def fedbabu(
    *,
    epochs: Length = 10,
    optimizer: SGD = SGD(0.1, momentum=0.9, schedule=DECAY),
    head_init: HeadInit = "default",
    zero_head_bias: bool = False,
    head_rate: Rate = 0.0,
    blocks: Positive | None = None,
    finetune_part: Selector = NETWORK,
    finetune_epochs: Length = 5,
    finetune_optimizer: Optimizer = SGD(0.001, momentum=0.9),
) -> Algorithm:
    """Train the body (or its first `blocks`) under an untrained head, average it; fine-tune before use.

    `head_rate` trains and shares the head too, at this fraction of the body's learning rate.
    """
    learned = NETWORK if head_rate else BODY if blocks is None else first_blocks(blocks)
    rated = replace(optimizer, rates=(*optimizer.rates, (HEAD, head_rate))) if head_rate else optimizer
    return Algorithm(
        shared=learned,
        keep=NOTHING,
        expand=with_head(head_init, zero_bias=zero_head_bias),
        phases=(Phase(learned, rated, epochs=epochs),),
        finetune=(Phase(finetune_part, finetune_optimizer, epochs=finetune_epochs),),
    )
