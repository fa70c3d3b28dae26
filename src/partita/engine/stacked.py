"""Many small clients at once: their networks side by side, a step of all of them in one call for each layer."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..core.client import Client
from ..core.optimizers import SGD
from ..core.phases import Phase
from ..core.task import Task
from ..tensors import Tensors
from . import reference
from .chain import chain_for
from .layers import Flatten, Linear, ReLU

SMALL = 1 << 16
"""Up to so many weights, a call costs more by itself than by what it does."""
MOST = 1 << 24
"""So many numbers of data are side by side at most."""


def can_stack(phase: Phase, client: Client, tensors: Tensors) -> bool:
    """Whether many clients can make this phase at once: plain SGD on linear layers and ReLU, and few weights.

    It says the same of a client alone, so that results do not depend on who is taken together.
    """
    optimizer, task = phase.optimizer, client.task
    network = task.network
    plain = type(optimizer) is SGD and not optimizer.momentum and optimizer.clip is None
    simple = not (phase.penalty or phase.project or phase.until or phase.carry or network.buffers)
    if not plain or not simple or task.loss is not F.cross_entropy or not phase.samples(client).fixed:
        return False
    if sum(task.weights[name].numel() for name in network.parameters) > SMALL:
        return False
    chain = chain_for(task, task.module) if phase.trained(network, frozenset(tensors)) else None
    return chain is not None and all(type(layer) in (Linear, ReLU, Flatten) for layer in chain.layers)


def run_stacked(phase: Phase, clients: Sequence[Client], tensors: Sequence[Tensors]) -> list[Tensors]:
    """Each client's tensors after the phase; clients of like size are best together."""
    largest = max(len(phase.samples(client)) * phase.samples(client).stored[:1].numel() for client in clients)
    most = max(MOST // max(largest, 1), 1)
    return [
        each
        for at in range(0, len(clients), most)
        for each in _run(phase, clients[at : at + most], tensors[at : at + most])
    ]


def _run(phase: Phase, clients: Sequence[Client], tensors: Sequence[Tensors]) -> list[Tensors]:
    task = clients[0].task
    sources = phase.view.sources(tensors[0], task.network)
    weights = {name: torch.stack([own[source] for own in tensors]) for name, source in sources.items()}
    chosen = phase.trained(task.network, frozenset(tensors[0]))
    descent = _Descent(phase, clients[0], {name: sources[name] for name in weights if sources[name] in chosen})
    inputs, targets = _side_by_side(phase, clients)
    each = torch.arange(len(clients))[:, None]
    seen = torch.zeros(len(clients), dtype=inputs.dtype)
    for rows, real in _steps(phase, clients):
        seen += _step(task, weights, descent, inputs[each, rows], targets[each, rows], real.to(inputs.dtype))
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
    """Plain SGD on stacked weights; the rate is the same for all clients of a round."""

    def __init__(self, phase: Phase, client: Client, sources: Mapping[str, str]) -> None:
        optimizer, network = phase.optimizer, client.task.network
        assert isinstance(optimizer, SGD)
        named = {source: client.task.weights[name] for name, source in sources.items()}
        factors = optimizer.factors(named, network)
        decayed = optimizer.decayed(network, frozenset(named)) if optimizer.weight_decay else frozenset()
        rate = optimizer.lr * optimizer.schedule(client.moment)
        self.sources = dict(sources)
        self.rates = {name: rate * factors[source] for name, source in sources.items()}
        self.decays = {
            name: self.rates[name] * optimizer.weight_decay for name, source in sources.items() if source in decayed
        }

    def shrink(self, name: str, weight: Tensor, active: Tensor) -> None:
        """Decay of those who still have steps to make."""
        if name in self.decays:
            weight.mul_((1 - self.decays[name] * active).view(-1, *[1] * (weight.dim() - 1)))


def _step(task: Task, weights: Tensors, descent: _Descent, inputs: Tensor, targets: Tensor, real: Tensor) -> Tensor:
    """A step of every client; its loss. What is not `real` is there only to fill up, and leaves no trace."""
    chain = chain_for(task, task.module)
    assert chain
    names = {parameter: name for name, parameter in task.module.named_parameters()}
    values, kept = inputs, []
    for layer in chain.layers:
        kept.append(values)
        if isinstance(layer, Linear):
            weight, bias = weights[names[layer.module.weight]].transpose(1, 2), layer.module.bias
            values = (
                torch.bmm(values, weight)
                if bias is None
                else torch.baddbmm(weights[names[bias]][:, None], values, weight)
            )
        else:
            values = values.relu() if isinstance(layer, ReLU) else values.flatten(2)
    scores = torch.log_softmax(values, 2)
    picked = targets[:, :, None]
    count = real.sum(1).clamp(min=1)
    loss = -(scores.gather(2, picked)[:, :, 0] * real).sum(1) / count
    gradient = scores.exp_().scatter_add_(2, picked, scores.new_full((1, 1, 1), -1.0).expand_as(picked))
    gradient.mul_((real / count[:, None])[:, :, None])
    active = (real.sum(1) > 0).to(real.dtype)
    first = min(
        at for at, layer in enumerate(chain.layers) if isinstance(layer, Linear) and _trained(layer, names, descent)
    )
    for at in range(len(chain.layers) - 1, first - 1, -1):
        layer, before = chain.layers[at], kept[at]
        if isinstance(layer, Linear):
            earlier = torch.bmm(gradient, weights[names[layer.module.weight]]) if at > first else gradient
            _descend(layer, weights, names, descent, gradient, before, active)
            gradient = earlier
        else:
            gradient = gradient.mul_(before > 0) if isinstance(layer, ReLU) else gradient.view(before.shape)
    return loss


def _trained(layer: Linear, names: Mapping[nn.Parameter, str], descent: _Descent) -> bool:
    return any(names[parameter] in descent.rates for parameter in layer.module.parameters())


def _descend(
    layer: Linear,
    weights: Tensors,
    names: Mapping[nn.Parameter, str],
    descent: _Descent,
    gradient: Tensor,
    before: Tensor,
    active: Tensor,
) -> None:
    weight = names[layer.module.weight]
    if weight in descent.rates:
        descent.shrink(weight, weights[weight], active)
        weights[weight].baddbmm_(gradient.transpose(1, 2), before, alpha=-descent.rates[weight])
    if layer.module.bias is not None and (bias := names[layer.module.bias]) in descent.rates:
        descent.shrink(bias, weights[bias], active)
        weights[bias].add_(gradient.sum(1), alpha=-descent.rates[bias])


def _side_by_side(phase: Phase, clients: Sequence[Client]) -> tuple[Tensor, Tensor]:
    """All clients' samples, filled up with zeros to the largest number."""
    samples = [phase.samples(client) for client in clients]
    pad = torch.nn.utils.rnn.pad_sequence
    return pad([each.inputs for each in samples], batch_first=True), pad(
        [each.targets for each in samples], batch_first=True
    )


def _steps(phase: Phase, clients: Sequence[Client]) -> list[tuple[Tensor, Tensor]]:
    """For each step the rows of every client's batch, and which of them are real."""
    batches = [list(phase.rows(client)) for client in clients]
    count = max(map(len, batches))
    size = max((len(rows) for each in batches for rows in each), default=0)
    rows = torch.zeros(count, len(clients), size, dtype=torch.int64)
    real = torch.zeros(count, len(clients), size, dtype=torch.bool)
    for at, each in enumerate(batches):
        for step, some in enumerate(each):
            rows[step, at, : len(some)] = some
            real[step, at, : len(some)] = True
    return list(zip(rows, real, strict=True))
