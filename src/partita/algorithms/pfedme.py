"""pFedMe. Dinh et al., 2020, https://arxiv.org/abs/2006.08848"""

from typing import Annotated

from ..core.algorithm import Algorithm, received_replaces_own, weights_of_task
from ..core.client import Client
from ..core.gradients import Moreau
from ..core.optimizers import SGD
from ..core.penalties import Proximal
from ..core.phases import Phase
from ..core.selectors import NETWORK, NOTHING
from ..core.server import Aggregation
from ..core.signatures import Length, Positive, Range, Rate, Strength, configurable
from ..errors import PartitaError
from ..tensors import Tensors, prefixed


@configurable
def pfedme(
    *,
    strength: Strength = 15.0,
    inner_steps: Positive = 5,
    inner_lr: Annotated[float, Range(0, 1_000, low_open=True)] = 0.09,
    inner_weight_decay: Strength = 0.0,
    carry_theta: bool = False,
    steps: Length = 20,
    optimizer: SGD = SGD(0.005),
    beta: Rate = 1.0,
) -> Algorithm:
    """Follow the Moreau envelope of the loss; before use, make the personal theta near the received weights."""
    if beta == 0 or strength == 0:
        raise PartitaError("pFedMe with beta = 0 or strength = 0 never moves its shared weights. Set both above 0.")
    return Algorithm(
        keep=NOTHING,
        expand=_with_theta if carry_theta else weights_of_task,
        start=_theta_from_received if carry_theta else received_replaces_own,
        phases=(
            Phase(
                NETWORK,
                optimizer,
                steps=steps,
                gradient=Moreau(strength, inner_steps, inner_lr, inner_weight_decay, carry_theta),
            ),
        ),
        finetune=(Phase(NETWORK, SGD(inner_lr), steps=inner_steps, penalty=Proximal(strength)),),
        server=Aggregation(optimizer=SGD(beta)),
    )


def _with_theta(client: Client) -> Tensors:
    return client.task.weights | prefixed("theta/", client.task.weights)


def _theta_from_received(tensors: Tensors, client: Client) -> Tensors:
    """Theta starts at the received weights."""
    return tensors | client.received | prefixed("theta/", client.received)
