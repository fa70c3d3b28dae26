"""FedALA. Zhang et al., 2023, https://arxiv.org/abs/2212.01197"""

import statistics
from collections.abc import Iterable
from typing import Annotated

import torch

from ..core.algorithm import Algorithm
from ..core.client import Client
from ..core.network import Network
from ..core.optimizers import SGD, Optimizer
from ..core.phases import Phase
from ..core.samples import Samples
from ..core.selectors import NETWORK, Selector, below, last_tensors
from ..core.signatures import Length, Positive, Range, Rate, Share, at_least, configurable
from ..core.views import PLAIN, View
from ..tensors import Tensors, only, prefixed, under

STARTED = "fedala/started"


@configurable
def fedala(
    *,
    layers: Positive = 2,
    mix_lr: Rate = 1.0,
    mix_init: Share = 1.0,
    fraction: Annotated[float, Range(0, 1, low_open=True)] = 0.8,
    threshold: Annotated[float, at_least(0)] = 0.1,
    max_start_epochs: Length = 100,
    epochs: Length = 1,
    optimizer: Optimizer = SGD(0.005),
) -> Algorithm:
    """Learn how to mix own and received weights in the last `layers` tensors, entry by entry; then train all."""
    top = last_tensors(layers)

    def expand(client: Client) -> Tensors:
        """The weights, their mixture and whether it was ever learned."""
        weights = client.task.weights
        mixed = only(weights, top(client.task.network, frozenset(weights)))
        mix = {name: torch.full_like(tensor, mix_init) for name, tensor in mixed.items()}
        return weights | prefixed("mix/", mix) | {STARTED: torch.zeros(())}

    def start(tensors: Tensors, client: Client) -> Tensors:
        """The received weights, but in the mixed layers beside the client's own."""
        received = only(client.received, under("mix/", tensors))
        own = only(tensors, received)
        return tensors | client.received | own | prefixed("received/", received)

    learn_mixture = Phase(
        below("mix/"),
        SGD(mix_lr),
        epochs=lambda client: _mixture_epochs(client, top, max_start_epochs),
        until=lambda losses: len(losses) >= 10 and statistics.pstdev(losses[-10:]) < threshold,
        view=MIXED,
        project=lambda name, tensor: tensor.clamp(0, 1),
        samples=lambda client: _slice(client, fraction),
    )
    return Algorithm(
        keep=top | below("mix/") | below("fedala/"),
        mixed=top,
        expand=expand,
        start=start,
        phases=(learn_mixture, _settle, Phase(NETWORK, optimizer, epochs=epochs)),
        finetune=(learn_mixture, _settle),
    )


def _mixture_epochs(client: Client, top: Selector, at_first: int) -> int:
    """None as long as nothing is to be mixed, many the first time, then one."""
    if not _differs(client, top(client.task.network, frozenset(client.received))):
        return 0
    return 1 if client.own and client.own[STARTED] else at_first


def _differs(client: Client, names: Iterable[str]) -> bool:
    own = client.initial | client.own
    return any(not torch.equal(own[name], client.received[name]) for name in names)


def _slice(client: Client, fraction: float) -> Samples:
    """A contiguous random part of the training data."""
    size = max(1, int(fraction * len(client.train)))
    begin = int(torch.randint(len(client.train) - size + 1, (), generator=client.generator("fedala")))
    return client.train.take(slice(begin, begin + size))


def _mixed(tensors: Tensors, network: Network) -> Tensors:
    """own + (received - own) * mix"""
    weights = PLAIN.weights(tensors, network)
    mix, received = under("mix/", tensors), under("received/", tensors)
    return weights | {n: weights[n] + (received[n] - weights[n]) * mix[n] for n in mix}


MIXED = View("own + (received - own) * mix", _mixed, lambda selector: below("mix/", selector))


def _settle(tensors: Tensors, client: Client) -> Tensors:
    """The mixture becomes the weights."""
    started = torch.ones(()) if _differs(client, under("mix/", tensors)) else tensors[STARTED]
    return tensors | _mixed(tensors, client.task.network) | {STARTED: started}
