"""APFL. Deng et al., 2020, https://arxiv.org/abs/2003.13461"""

import warnings
from dataclasses import replace

import torch
from torch import Tensor

from ..core.algorithm import Algorithm
from ..core.client import Client
from ..core.network import Network
from ..core.optimizers import SGD
from ..core.phases import Phase
from ..core.samples import Samples
from ..core.selectors import NETWORK, below
from ..core.signatures import Length, Rate, Share, configurable
from ..core.views import PLAIN, View
from ..errors import DegenerateWarning
from ..tensors import Tensors, prefixed, under

ALPHA = "apfl/alpha"


@configurable
def apfl(
    *, alpha: Share = 0.5, adaptive: bool = True, alpha_rate: Rate = 1.0, epochs: Length = 1, optimizer: SGD = SGD(0.1)
) -> Algorithm:
    """Train the shared network and a personal one; use alpha * personal + (1 - alpha) * shared."""
    if alpha == 0 and not adaptive:
        warnings.warn("APFL with alpha = 0 uses the FedAvg model. Set alpha > 0.", DegenerateWarning, stacklevel=3)

    def expand(client: Client) -> Tensors:
        weights = client.task.weights
        kind = next(iter(weights.values())).dtype
        return weights | prefixed("personal/", weights) | {ALPHA: torch.tensor(alpha, dtype=kind)}

    both = NETWORK | below("personal/")
    return Algorithm(
        expand=expand,
        phases=(
            Phase(
                both | below("apfl/") if adaptive else both,
                replace(optimizer, rates=(*optimizer.rates, (below("apfl/"), alpha_rate))),
                epochs=epochs,
                objective=_both_losses,
                project=lambda name, tensor: tensor.clamp(0, 1) if name == ALPHA else tensor,
            ),
        ),
        view=MIXTURE,
    )


def _mixture(tensors: Tensors, network: Network) -> Tensors:
    alpha, shared = tensors[ALPHA], PLAIN.weights(tensors, network)
    return {
        name: own if name in network.buffers else alpha * own + (1 - alpha) * shared[name]
        for name, own in under("personal/", tensors).items()
    }


MIXTURE = View("alpha * personal + (1 - alpha) * shared", _mixture, lambda selector: below("personal/", selector))


def _both_losses(tensors: Tensors, batch: Samples, client: Client) -> Tensor:
    """The shared network's loss and the mixture's; the latter does not move the shared network."""
    task = client.task
    shared = PLAIN.weights(tensors, task.network)
    fixed = tensors | {name: tensor.detach() for name, tensor in shared.items() if name not in task.network.buffers}
    mixed = _mixture(fixed, task.network)
    return sum(
        (task.loss(task.outputs(weights, batch.inputs), batch.targets) for weights in (shared, mixed)),
        start=torch.zeros(()),
    )
