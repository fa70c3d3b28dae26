"""FedSim. Pillutla et al., 2022, https://arxiv.org/abs/2204.03809"""

from typing import Literal

from ..core.algorithm import Algorithm, weights_of_task
from ..core.initialization import independent
from ..core.optimizers import SGD
from ..core.penalties import Proximal
from ..core.phases import Phase
from ..core.selectors import HEAD, NETWORK, NOTHING, Selector
from ..core.signatures import Length, Strength, configurable

PersonalInit = Literal["common", "independent"]


@configurable
def fedsim(
    *,
    personal: Selector = HEAD,
    epochs: Length = 1,
    max_steps: Length | None = None,
    optimizer: SGD = SGD(0.1),
    stateful: bool = True,
    personal_init: PersonalInit = "common",
    regularization: Strength = 0.0,
    toward: Literal["initial", "zero"] = "initial",
) -> Algorithm:
    """Train the shared and the personal part together; average the shared part."""
    near = Proximal(2 * regularization, to=toward, on=personal) if regularization else None
    return Algorithm(
        shared=NETWORK & ~personal,
        personal=personal,
        keep=personal if stateful else NOTHING,
        expand=weights_of_task if personal_init == "common" else independent(personal),
        phases=(Phase(NETWORK, optimizer, epochs=epochs, steps=max_steps, penalty=near),),
    )
