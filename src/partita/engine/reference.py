"""The reference engine: a phase as its definition says, one client after another. Every other engine must agree."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..core.client import Client
from ..core.phases import Phase
from ..core.samples import Samples
from ..core.soundness import finite
from ..errors import DivergedError
from ..tensors import Tensors, network_name, prefixed, under


def run_phase(phase: Phase, clients: Sequence[Client], tensors: Sequence[Tensors]) -> list[Tensors]:
    """Each client's tensors after a phase; the given ones are left as they are."""
    return [_run(phase, client, own) for client, own in zip(clients, tensors, strict=True)]


def _run(phase: Phase, client: Client, tensors: Tensors) -> Tensors:
    names = phase.trained(client.task.network, frozenset(tensors))
    if not names:
        return tensors
    network, given = client.task.network, tensors
    # A forward pass updates running statistics and renormalizes embeddings in place, so these are copied.
    changing = network.buffers | client.task.renormalized
    tensors = {n: t.clone() if network_name(n) in changing else t for n, t in tensors.items()}
    trained = {name: tensor for name, tensor in tensors.items() if name in names}
    state = phase.optimizer.init(trained) | (under("optimizer/", tensors) if phase.carry else {})
    losses: list[list[float]] = []
    client.task.train_(frozenset(map(network_name, names)))
    with client.seeded("noise/" + client.purpose):
        for moment, batches in phase.moments(client, phase.samples(client)):
            if moment.step == 0:
                if losses:
                    _report_epoch(phase, tensors, client)
                if phase.until and losses and phase.until([sum(epoch) / len(epoch) for epoch in losses]):
                    break
                losses.append([])
            gradient, changes, loss = _gradient(phase, client, tensors, trained, batches)
            losses[-1].append(loss)
            trained, state = phase.optimizer.update(trained, gradient, state, moment, network)
            if phase.project:
                trained = {name: phase.project(name, tensor) for name, tensor in trained.items()}
            tensors = tensors | changes | trained
        else:
            if losses:
                _report_epoch(phase, tensors, client)
    if not all(map(finite, trained.values())):
        raise diverged("The weights", "not finite", phase, client)
    constant = {n: t for n, t in given.items() if network_name(n) in client.task.renormalized and n not in names}
    return tensors | constant | (prefixed("optimizer/", state) if phase.carry else {})


def _report_epoch(phase: Phase, tensors: Tensors, client: Client) -> None:
    if phase.on_epoch:
        # Copies, since the network updates running statistics in place.
        phase.on_epoch({name: tensor.detach().clone() for name, tensor in tensors.items()}, client)


def _gradient(
    phase: Phase, client: Client, tensors: Tensors, trained: Tensors, batches: Sequence[Samples]
) -> tuple[Tensors, Tensors, float]:
    """The gradient that a step follows, other tensors that change with it, and the loss."""
    losses: list[float] = []

    def gradient_at(values: Tensors, batch: Samples) -> Tensors:
        leaves = {name: value.detach().requires_grad_() for name, value in values.items()}
        loss = phase.loss(tensors | leaves, batch, client)
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            raise diverged("The loss", str(losses[-1]), phase, client)
        if phase.penalty:
            loss = loss + phase.penalty(leaves, client)
        gradients = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        return {name: dense(g) for name, g in zip(leaves, gradients, strict=True) if g is not None}

    gradient, changes = phase.gradient(gradient_at, trained, batches, tensors)
    return gradient, changes, losses[-1]


def dense(gradient: Tensor) -> Tensor:
    """The gradient of a sparse embedding is sparse, which momentum, decay and penalties cannot work with."""
    return gradient.to_dense() if gradient.is_sparse else gradient


def diverged(what: str, became: str, phase: Phase, client: Client) -> DivergedError:
    return DivergedError(
        f"{what} of {client} became {became} in round {client.moment.round + 1} while training {phase.train} "
        f"with a learning rate of {phase.optimizer.lr:g}. Lower the learning rate, clip the gradient, or look for "
        "samples that are not numbers."
    )
