"""What are the initial weights of a part of the network?"""

from collections.abc import Callable
from copy import deepcopy
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from ..errors import PartitaError, unknown
from ..randomness import seeded
from ..tensors import Tensors
from .client import Client
from .selectors import HEAD, Selector

HeadInit = Literal[
    "default", "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal", "orthogonal", "similar"
]


def independent(personal: Selector) -> Callable[[Client], Tensors]:
    """Initial weights whose personal part each client draws for itself."""

    def expand(client: Client) -> Tensors:
        network = client.task.network
        chosen = personal(network, frozenset(network.names))
        drawn: Tensors = {}
        with seeded(client.moment.seed, "personal", client.id):
            for module in dict.fromkeys(owner for name, owner in network.owners.items() if name in chosen):
                fresh = deepcopy(module).cpu()
                if not callable(reset := getattr(fresh, "reset_parameters", None)):
                    raise PartitaError(
                        f"{type(module).__name__} has no reset_parameters(), so that a client cannot draw its "
                        "weights. Define it, or set personal_init='common'."
                    )
                reset()
                state = fresh.state_dict()
                own = {
                    name: state[name.rpartition(".")[2]]
                    for name, owner in network.owners.items()
                    if name in chosen and owner is module
                }
                drawn |= {name: tensor.to(client.task.weights[name].dtype) for name, tensor in own.items()}
        return client.task.weights | drawn

    return expand


def with_head(kind: HeadInit, *, zero_bias: bool = False) -> Callable[[Client], Tensors]:
    """Initial weights with another head, the same for all clients."""
    if kind not in get_args(HeadInit):
        raise PartitaError(unknown("head initialisation", kind, get_args(HeadInit)))

    def expand(client: Client) -> Tensors:
        weights = dict(client.task.weights)
        network = client.task.network
        with seeded(client.moment.seed, "head"):
            for name in sorted(HEAD(network, frozenset(network.names))):
                if weights[name].ndim == 2 and kind != "default":
                    weights[name] = _drawn(kind, weights[name])
                elif weights[name].ndim == 1 and zero_bias:
                    weights[name] = torch.zeros_like(weights[name])
        return weights

    return expand


def _drawn(kind: HeadInit, like: Tensor) -> Tensor:
    """Weights drawn on the CPU, whose random numbers are the same for every device."""
    weight = torch.empty_like(like, device="cpu")
    gain = nn.init.calculate_gain("relu")
    if kind == "xavier_uniform":
        return nn.init.xavier_uniform_(weight)
    if kind == "xavier_normal":
        return nn.init.xavier_normal_(weight)
    if kind == "kaiming_uniform":
        return nn.init.kaiming_uniform_(weight, nonlinearity="relu")
    if kind == "kaiming_normal":
        return nn.init.kaiming_normal_(weight, nonlinearity="relu")
    if kind == "orthogonal":
        return nn.init.orthogonal_(weight, gain=gain)
    return nn.functional.normalize(weight.uniform_(0.45, 0.55), dim=1)
