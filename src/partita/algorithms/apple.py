"""APPLE. Luo and Wu, 2022, https://arxiv.org/abs/2110.08394"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from ..core.algorithm import Algorithm
from ..core.client import Client
from ..core.network import Network
from ..core.optimizers import SGD
from ..core.phases import Phase
from ..core.selectors import NETWORK, below
from ..core.server import Update, in_order
from ..core.signatures import Length, Positive, Rate, Share, Strength, configurable
from ..core.views import PLAIN, View
from ..randomness import Moment, generator
from ..tensors import Tensors, prefixed, under

RELATIONS, PRIOR, SELF = "relations/all", "apple/prior", "apple/self"


@configurable
def apple(
    *,
    mu: Strength = 0.1,
    fade: Literal["cosine", "exponential"] = "cosine",
    fade_fraction: Share = 0.1,
    relation_rate: Rate = 0.1,
    relation_init: Literal["samples", "uniform"] = "samples",
    downloads: Positive | None = None,
    epochs: Length = 5,
    optimizer: SGD = SGD(0.01, momentum=0.9),
) -> Algorithm:
    """Use a learned mixture of all clients' core networks; train the client's own and the weights of the mixture."""

    def near_prior(trained: Tensors, client: Client) -> Tensor:
        """mu * lambda(round) * |p - p0|^2"""
        strength = mu * faded(client.moment.round, fade_fraction * client.moment.rounds, fade)
        return strength * (trained[RELATIONS] - client.received[PRIOR]).square().sum()

    return Algorithm(
        keep=NETWORK | below("relations/"),
        expand=_with_relations,
        start=_own_core_among_the_others,
        phases=(
            Phase(
                NETWORK | below("relations/"),
                replace(optimizer, rates=(*optimizer.rates, (below("relations/"), relation_rate))),
                epochs=epochs,
                penalty=near_prior,
                view=MIXTURE,
            ),
        ),
        view=MIXTURE,
        server=CoreModels(relation_init, downloads),
    )


def faded(number: int, end: float, fade: Literal["cosine", "exponential"]) -> float:
    """lambda(r): from 1 to 0 over the first `end` rounds."""
    if number >= end:
        return 0.0
    return (1 + math.cos(math.pi * number / end)) / 2 if fade == "cosine" else float(1e-3 ** (number / end))


def _with_relations(client: Client) -> Tensors:
    """The core, the client's place among the others, and relations, which are unknown before the first download."""
    return client.task.weights | {RELATIONS: torch.zeros(0), SELF: torch.tensor(client.id)}


def _own_core_among_the_others(tensors: Tensors, client: Client) -> Tensors:
    """The client's own core and relations, and the other cores as received."""
    relations = tensors[RELATIONS] if tensors[RELATIONS].numel() else client.received[PRIOR]
    return tensors | client.received | {RELATIONS: relations}


def _mixture(tensors: Tensors, network: Network) -> Tensors:
    """The sum of p_j c_j over all cores j at hand, the own one among them."""
    relations, weights = tensors[RELATIONS], PLAIN.weights(tensors, network)
    mixed = {name: relations[int(tensors[SELF])] * weights[name] for name in network.parameters}
    for name, core in under("core/", tensors).items():
        owner, _, inner = name.partition("/")
        if inner in mixed:
            mixed[inner] = mixed[inner] + relations[int(owner)] * core
    return weights | mixed


MIXTURE = View("sum of relation * core", _mixture, lambda selector: selector)


@dataclass(frozen=True)
class CoreModels:
    """Keeps every client's core as `server/core/ID/...`; one that never took part has the initial weights."""

    relation_init: Literal["samples", "uniform"]
    downloads: int | None
    sees_single_models: bool = True

    def init(self, shared: Tensors, sizes: Sequence[int]) -> Tensors:
        kind = next(iter(shared.values())).dtype
        counts = (
            torch.tensor(sizes, dtype=kind) if self.relation_init == "samples" else torch.ones(len(sizes), dtype=kind)
        )
        return prefixed("server/initial/", shared) | {"server/prior": counts / counts.sum()}

    def download(self, state: Tensors, client: int, moment: Moment) -> Tensors:
        """The other cores, or as many of them as a client may download, drawn again each round."""
        prior = state["server/prior"]
        others = [other for other in range(len(prior)) if other != client]
        if self.downloads is not None:
            draw = generator(moment.seed, "apple", moment.round, client)
            order = torch.randperm(len(others), generator=draw).tolist()
            others = sorted(others[at] for at in order[: self.downloads])
        initial = under("server/initial/", state)
        cores = {
            f"core/{other}/{name}": state.get(f"server/core/{other}/{name}", tensor)
            for other in others
            for name, tensor in initial.items()
        }
        return cores | {PRIOR: prior}

    def aggregate(self, state: Tensors, updates: Sequence[Update], moment: Moment, network: Network) -> Tensors:
        new = dict(state)
        for update in in_order(updates):
            new |= prefixed(f"server/core/{update.client}/", update.values)
        return new
