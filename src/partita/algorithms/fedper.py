"""FedPer. Arivazhagan et al., 2019, https://arxiv.org/abs/1912.00818"""

from dataclasses import replace

from ..core.algorithm import Algorithm
from ..core.optimizers import SGD
from ..core.phases import Phase
from ..core.selectors import last_blocks
from ..core.signatures import Count, Length, configurable
from .fedsim import PersonalInit, fedsim


@configurable
def fedper(*, blocks: Count = 1, epochs: Length = 4, optimizer: SGD = SGD(0.01), head_warmup_epochs: Length = 0,
           personal_init: PersonalInit = "common", stateful: bool = True) -> Algorithm:  # fmt: skip
    """Share the base, keep the last blocks, train both together; a warm-up trains the kept ones first."""
    own = last_blocks(blocks)
    joint = fedsim(personal=own, epochs=epochs, optimizer=optimizer, personal_init=personal_init, stateful=stateful)
    warm_up = (Phase(own, optimizer, epochs=head_warmup_epochs),) if head_warmup_epochs else ()
    return replace(joint, phases=(*warm_up, *joint.phases))
