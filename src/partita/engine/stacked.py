"""How are many small clients trained at once? With their networks side by side, and one call for each layer."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from ..core.client import Client
from ..core.optimizers import SGD
from ..core.phases import Phase
from ..core.task import Task
from ..tensors import Tensors
from . import reference
from .chain import Chain
from .eligibility import handles
from .layers import Flatten, Layer, Linear, ReLU
from .steps import descends_at_once

SMALL = 1 << 16
"""Up to this number of weights, the overhead of a call exceeds its computation."""
MOST = 1 << 24
"""The largest number of values that are stacked."""


def can_stack(phase: Phase, task: Task) -> bool:
    """Whether many clients can do this phase at once, if their network `suits`: few weights and plain SGD.

    The answer is the same for a client alone, so that results do not depend on which clients are trained together.
    """
    return (
        handles(phase, Phase, "train", "optimizer", "epochs", "steps", "view", "samples")
        and descends_at_once(phase)
        and not task.network.buffers
        and sum(task.weights[name].numel() for name in task.network.parameters) <= SMALL
    )


def suits(chain: Chain, dimensions: int) -> bool:
    """Whether a network is nothing but linear layers and ReLU."""
    return chain.accepts(dimensions) and all(type(layer) in (Linear, ReLU, Flatten) for layer in chain.layers)


def run_stacked(phase: Phase, clients: Sequence[Client], tensors: Sequence[Tensors], chain: Chain) -> list[Tensors]:
    """Each client's tensors after the phase, all of one task; it is fastest for clients of like size."""
    largest = max(len(phase.samples(client)) * phase.samples(client).stored[:1].numel() for client in clients)
    most = max(MOST // max(largest, 1), 1)
    return [
        each
        for at in range(0, len(clients), most)
        for each in _run(phase, clients[at : at + most], tensors[at : at + most], chain)
    ]


def _run(phase: Phase, clients: Sequence[Client], tensors: Sequence[Tensors], chain: Chain) -> list[Tensors]:
    task = clients[0].task
    sources = phase.view.sources(tensors[0], task.network)
    weights = {name: torch.stack([own[source] for own in tensors]) for name, source in sources.items()}
    chosen = phase.trained(task.network, frozenset(tensors[0]))
    descent = _Descent(phase, clients[0], {name: sources[name] for name in weights if sources[name] in chosen})
    network = _Stack(chain, {parameter: name for name, parameter in task.module.named_parameters()}, weights)
    inputs, targets = _side_by_side(phase, clients)
    each = torch.arange(len(clients), device=inputs.device)[:, None]
    seen = torch.zeros(len(clients), dtype=inputs.dtype, device=inputs.device)
    for rows, real in _steps(phase, clients, inputs.device):
        seen += network.step(inputs[each, rows], targets[each, rows], real.to(inputs.dtype), descent)
    for client, loss in zip(clients, seen.tolist(), strict=True):
        if not math.isfinite(loss):
            raise reference.diverged("The loss", str(loss), phase, client)
    for name in descent.sources:
        sound = torch.isfinite(weights[name]).flatten(1).all(1).tolist()
        if not all(sound):
            raise reference.diverged("The weights", "not finite", phase, clients[sound.index(False)])
    return [
        own | {source: weights[name][at].clone() for name, source in descent.sources.items()}
        for at, own in enumerate(tensors)
    ]


class _Descent:
    """Plain SGD on stacked weights; the rates of a round are the same for all clients."""

    def __init__(self, phase: Phase, client: Client, sources: Mapping[str, str]) -> None:
        assert isinstance(phase.optimizer, SGD)
        found = phase.optimizer.descents(sources.values(), client.moment, client.task.network)
        self.sources = dict(sources)
        self._of = {name: found[source] for name, source in sources.items()}

    def __contains__(self, name: str) -> bool:
        return name in self._of

    def rate(self, name: str) -> float:
        return self._of[name].rate

    def decay_(self, name: str, weight: Tensor, active: Tensor) -> None:
        """Decay for the clients that still have steps to make."""
        if self._of[name].decay:
            weight.mul_((1 - self._of[name].shrinkage * active).view(-1, *[1] * (weight.dim() - 1)))


class _Stack:
    """The networks of several clients: each layer's weights side by side."""

    def __init__(self, chain: Chain, names: Mapping[nn.Parameter, str], weights: Tensors) -> None:
        self._layers, self._names, self._weights = chain.layers, names, weights

    def step(self, inputs: Tensor, targets: Tensor, real: Tensor, descent: _Descent) -> Tensor:
        """A step of every client; its loss. What is not `real` only fills up a batch and has no effect."""
        values, kept = inputs, []
        for layer in self._layers:
            kept.append(values)
            values = self._forward(layer, values)
        scores = torch.log_softmax(values, 2)
        picked = targets[:, :, None]
        count = real.sum(1).clamp(min=1)
        loss = -(scores.gather(2, picked)[:, :, 0] * real).sum(1) / count
        gradient = scores.exp_().scatter_add_(2, picked, scores.new_full((1, 1, 1), -1.0).expand_as(picked))
        gradient.mul_((real / count[:, None])[:, :, None])
        active = (real.sum(1) > 0).to(real.dtype)
        trained = (at for at, layer in enumerate(self._layers) if self._trained(layer, descent))
        first = next(trained, len(self._layers))
        for at in range(len(self._layers) - 1, first - 1, -1):
            layer, before = self._layers[at], kept[at]
            if isinstance(layer, Linear):
                earlier = torch.bmm(gradient, self._weight(layer.module.weight)) if at > first else gradient
                self._descend(layer, descent, gradient, before, active)
                gradient = earlier
            else:
                gradient = gradient.mul_(before > 0) if isinstance(layer, ReLU) else gradient.view(before.shape)
        return loss

    def _forward(self, layer: Layer, values: Tensor) -> Tensor:
        if not isinstance(layer, Linear):
            return values.relu() if isinstance(layer, ReLU) else values.flatten(2)
        weight, bias = self._weight(layer.module.weight).transpose(1, 2), layer.module.bias
        if bias is None:
            return torch.bmm(values, weight)
        return torch.baddbmm(self._weight(bias)[:, None], values, weight)

    def _descend(self, layer: Linear, descent: _Descent, gradient: Tensor, before: Tensor, active: Tensor) -> None:
        weight = self._names[layer.module.weight]
        if weight in descent:
            descent.decay_(weight, self._weights[weight], active)
            self._weights[weight].baddbmm_(gradient.transpose(1, 2), before, alpha=-descent.rate(weight))
        if layer.module.bias is not None and (bias := self._names[layer.module.bias]) in descent:
            descent.decay_(bias, self._weights[bias], active)
            self._weights[bias].add_(gradient.sum(1), alpha=-descent.rate(bias))

    def _weight(self, parameter: nn.Parameter) -> Tensor:
        return self._weights[self._names[parameter]]

    def _trained(self, layer: Layer, descent: _Descent) -> bool:
        return isinstance(layer, Linear) and any(self._names[each] in descent for each in layer.module.parameters())


def _side_by_side(phase: Phase, clients: Sequence[Client]) -> tuple[Tensor, Tensor]:
    """All clients' samples, padded with zeros to the largest client."""
    samples = [phase.samples(client) for client in clients]
    pad = torch.nn.utils.rnn.pad_sequence
    return pad([each.inputs for each in samples], batch_first=True), pad(
        [each.targets for each in samples], batch_first=True
    )


def _steps(phase: Phase, clients: Sequence[Client], device: torch.device) -> list[tuple[Tensor, Tensor]]:
    """The rows of every client's batch in each step, and which of them are real."""
    batches = [list(phase.rows(client)) for client in clients]
    count = max(map(len, batches))
    size = max((len(rows) for each in batches for rows in each), default=0)
    rows = torch.zeros(count, len(clients), size, dtype=torch.int64)
    real = torch.zeros(count, len(clients), size, dtype=torch.bool)
    for at, each in enumerate(batches):
        for step, some in enumerate(each):
            rows[step, at, : len(some)] = some
            real[step, at, : len(some)] = True
    return list(zip(rows.to(device), real.to(device), strict=True))
