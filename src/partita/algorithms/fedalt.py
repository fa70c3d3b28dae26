"""FedAlt. Pillutla et al., 2022, https://arxiv.org/abs/2204.03809"""

from dataclasses import replace
from typing import Literal

from ..core.algorithm import Algorithm
from ..core.optimizers import SGD
from ..core.penalties import Proximal
from ..core.phases import Phase
from ..core.selectors import HEAD, NETWORK, Selector
from ..core.signatures import Length, Strength, configurable
from .fedsim import PersonalInit, fedsim


@configurable
def fedalt(
    *,
    personal: Selector = HEAD,
    personal_epochs: Length = 1,
    epochs: Length = 1,
    max_personal_steps: Length | None = None,
    optimizer: SGD = SGD(0.1),
    personal_optimizer: SGD | None = None,
    stateful: bool = True,
    personal_init: PersonalInit = "common",
    regularization: Strength = 0.0,
    toward: Literal["initial", "zero"] = "initial",
) -> Algorithm:
    """Train the personal part, then the shared part with the new personal one; average the shared part."""
    near = Proximal(2 * regularization, to=toward) if regularization else None
    adapt = Phase(
        personal, personal_optimizer or optimizer, epochs=personal_epochs, steps=max_personal_steps, penalty=near
    )
    learn = Phase(NETWORK & ~personal, optimizer, epochs=epochs)
    partition = fedsim(personal=personal, stateful=stateful, personal_init=personal_init)
    return replace(partition, phases=(adapt, learn))
