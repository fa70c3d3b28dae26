"""Ditto. Li et al., 2021, https://arxiv.org/abs/2012.04221"""

import warnings

from ..core.algorithm import Algorithm
from ..core.client import Client
from ..core.optimizers import SGD, Optimizer
from ..core.penalties import Proximal
from ..core.phases import Phase
from ..core.selectors import NETWORK
from ..core.signatures import Length, Strength, configurable
from ..core.views import copy
from ..errors import DegenerateWarning
from ..tensors import Tensors, prefixed

PERSONAL = copy("personal/")


@configurable
def ditto(
    *,
    strength: Strength = 0.75,
    epochs: Length = 1,
    optimizer: Optimizer = SGD(0.1),
    personal_epochs: Length = 1,
    personal_optimizer: Optimizer | None = None,
) -> Algorithm:
    """FedAvg, and a personal network pulled towards the received one by (strength / 2) |v - w_t|^2."""
    if strength == 0:
        warnings.warn("Ditto with strength = 0 is local training. Set strength > 0.", DegenerateWarning, stacklevel=3)
    near = Phase(
        PERSONAL.place(NETWORK),
        personal_optimizer or optimizer,
        epochs=personal_epochs,
        view=PERSONAL,
        penalty=Proximal(strength),
    )
    return Algorithm(expand=_with_personal, phases=(Phase(NETWORK, optimizer, epochs=epochs), near), view=PERSONAL)


def _with_personal(client: Client) -> Tensors:
    return client.task.weights | prefixed("personal/", client.task.weights)
