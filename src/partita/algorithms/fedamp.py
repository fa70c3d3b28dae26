"""FedAMP. Huang et al., 2021, https://arxiv.org/abs/2007.03797"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from ..core.algorithm import Algorithm
from ..core.client import Client
from ..core.network import Network
from ..core.optimizers import SGD, Optimizer
from ..core.penalties import Proximal
from ..core.phases import Phase
from ..core.selectors import NETWORK
from ..core.server import Update, in_order
from ..core.signatures import Length, Strength, above, configurable
from ..errors import DegenerateWarning
from ..randomness import Moment
from ..tensors import Tensors, prefixed, under


@configurable
def fedamp(
    *,
    strength: Strength = 1.0,
    alpha: Strength = 1.0,
    sigma: Annotated[float, above(0)] = 100.0,
    epochs: Length = 1,
    optimizer: Optimizer = SGD(0.1),
) -> Algorithm:
    """Train near a mixture of all clients' networks, in which similar networks have more weight."""
    if strength == 0:
        warnings.warn("FedAMP with strength = 0 is local training. Set strength > 0.", DegenerateWarning, stacklevel=3)
    near = Proximal(strength / alpha) if alpha else None
    return Algorithm(
        keep=NETWORK,
        start=_own_or_initial,
        phases=(Phase(NETWORK, optimizer, epochs=epochs, penalty=near),),
        server=MessagePassing(alpha, sigma),
    )


def _own_or_initial(tensors: Tensors, client: Client) -> Tensors:
    """The client's own weights; what was received is only a centre."""
    return tensors


@dataclass(frozen=True)
class MessagePassing:
    """Keeps every client's network as `server/client/ID/...`; one that never took part has the initial weights."""

    alpha: float
    sigma: float
    sees_single_models: bool = True

    def init(self, shared: Tensors, sizes: Sequence[int]) -> Tensors:
        if self.alpha / self.sigma * (len(sizes) - 1) > 1:
            warnings.warn(
                "FedAMP: the others may weigh more than 1 together, so that a client counts against itself. "
                f"Keep alpha / sigma below 1 / {len(sizes) - 1}.",
                DegenerateWarning,
                stacklevel=3,
            )
        return prefixed("server/initial/", shared) | {"server/population": torch.tensor(len(sizes))}

    def download(self, state: Tensors, client: int, moment: Moment) -> Tensors:
        """u_i = sum over j of xi_ij w_j, xi_ij = alpha A'(|w_i - w_j|^2), xi_ii = 1 - sum of the others."""
        initial = under("server/initial/", state)
        models = _models(state)
        own = models.pop(client, initial)
        absent = int(state["server/population"]) - 1 - len(models)
        others = [(1, model) for _, model in sorted(models.items())] + ([(absent, initial)] if absent > 0 else [])
        weights = [count * self.attention(own, model) for count, model in others]
        own_weight = 1 - sum(weights)
        return {
            name: _sum([tensor * own_weight, *(w * model[name] for w, (_, model) in zip(weights, others, strict=True))])
            for name, tensor in own.items()
        }

    def attention(self, own: Tensors, other: Tensors) -> float:
        """xi_ij for one other client j."""
        distance = sum(float((own[name].double() - other[name].double()).square().sum()) for name in own)
        return self.alpha * math.exp(-distance / self.sigma) / self.sigma

    def aggregate(self, state: Tensors, updates: Sequence[Update], moment: Moment, network: Network) -> Tensors:
        models = _models(state)
        new = dict(state)
        for update in in_order(updates):
            old = models.get(update.client, under("server/initial/", state))
            values = {
                name: torch.where(update.mask[name], value, old[name]) if update.mask and name in update.mask else value
                for name, value in update.values.items()
            }
            new |= prefixed(f"server/client/{update.client}/", old | values)
        return new


def _models(state: Tensors) -> dict[int, Tensors]:
    models: dict[int, Tensors] = {}
    for name, tensor in under("server/client/", state).items():
        client, _, rest = name.partition("/")
        models.setdefault(int(client), {})[rest] = tensor
    return models


def _sum(terms: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(terms)).sum(0)
