"""The fast runner: the module itself is trained, in place. It agrees with the readable one up to rounding."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..client import Client
from ..gradients import PLAIN_GRADIENT
from ..network import Network
from ..optimizers import SGD, Optimizer
from ..penalties import Proximal
from ..phases import Phase
from ..prefix import tail_of
from ..randomness import Moment, seeded
from ..samples import Samples
from ..task import Task
from ..tensors import Tensors, network_name, prefixed, under
from . import reference

Step = Callable[[list[Tensor | None], Moment], None]
"""Changes the trained parameters, given their gradients."""


def run_phase(
    phase: Phase, clients: Sequence[Client], tensors: Sequence[Tensors], *, cache: bool = True
) -> list[Tensors]:
    """Each client's tensors after a phase; the given ones are left as they are.

    With `cache`, what comes before the layers that are trained is computed once for each sample, where that is exact.
    """
    return [
        reference.run_phase(phase, [client], [own])[0]
        if obstacle(phase, client.task, own)
        else _run(phase, client, own, cache)
        for client, own in zip(clients, tensors, strict=True)
    ]


def obstacle(phase: Phase, task: Task, tensors: Tensors) -> str | None:
    """Why a phase needs the functional form, if it does."""
    if phase.objective:
        return "an objective of its own"
    if phase.gradient != PLAIN_GRADIENT:
        return f"a gradient by {type(phase.gradient).__name__}"
    mixed = phase.trained(task.network, frozenset(tensors)) - set(_sources(phase, task.network, tensors).values())
    return f"weights by {phase.view.text}" if mixed else None


def _sources(phase: Phase, network: Network, tensors: Tensors) -> dict[str, str]:
    """For each weight of the network the tensor that it is, where the view makes it of one alone."""
    # Of other objects than the tensors, since one tensor may have several names.
    stand_ins = {name: tensor.view_as(tensor) for name, tensor in tensors.items()}
    known = {id(tensor): name for name, tensor in stand_ins.items()}
    weights = phase.view.weights(stand_ins, network)
    return {name: known[id(weight)] for name, weight in weights.items() if id(weight) in known}


def _run(phase: Phase, client: Client, tensors: Tensors, cache: bool) -> Tensors:
    network, module = client.task.network, client.task.module
    chosen = phase.trained(network, frozenset(tensors))
    names = [name for name in tensors if name in chosen]
    if not names:
        return tensors
    held = client.task.load_(phase.view.weights(tensors, network))
    trained = {name: held[network_name(name)] for name in names}
    parameters = list(trained.values())
    _train_only_(module, parameters)
    state = phase.optimizer.init(trained) | (under("optimizer/", tensors) if phase.carry else {})
    step = _in_place(phase.optimizer, trained, state, network)
    pull = _pull(phase, trained, client)
    losses: list[list[float]] = []
    client.task.train_(frozenset(map(network_name, names)))
    with (
        seeded(client.moment.seed, "noise/" + client.purpose, client.moment.round, client.id),
        _sparse_embeddings(module, phase),
    ):
        used, samples = _part(phase, client, names) if cache else (module, phase.samples(client))
        for moment, (batch,) in phase.moments(client, samples):
            if moment.step == 0:
                if phase.until and losses and phase.until([sum(epoch) / len(epoch) for epoch in losses]):
                    break
                losses.append([])
            loss = client.task.loss(used(batch.inputs), batch.targets)
            losses[-1].append(loss.item())
            if not math.isfinite(losses[-1][-1]):
                raise reference.diverged("The loss", str(losses[-1][-1]), phase, client)
            if phase.penalty and not pull:
                loss = loss + phase.penalty(trained, client)
            gradients: list[Tensor | None] = [*torch.autograd.grad(loss, parameters, allow_unused=True)]
            with torch.no_grad():
                if pull:
                    pull(gradients)
                step(gradients, moment)
                if phase.project:
                    for name, parameter in trained.items():
                        parameter.copy_(phase.project(name, parameter))
    if not all(bool(torch.isfinite(parameter).all()) for parameter in parameters):
        raise reference.diverged("The weights", "not finite", phase, client)
    sources = _sources(phase, network, tensors)
    moved = {sources[name]: held[name] for name in network.buffers if name in sources}
    kept = {name: _copy(tensor) for name, tensor in (trained | moved).items()}
    return tensors | kept | (prefixed("optimizer/", state) if phase.carry else {})


def _part(phase: Phase, client: Client, names: Sequence[str]) -> tuple[nn.Module, Samples]:
    """The part of the network that a step goes through, and the samples as that part sees them."""
    samples, network = phase.samples(client), client.task.network
    if phase.steps_taken(client) >= client.batches_per_epoch(len(samples)):
        tail = tail_of(client.task.module, {network.owners[network_name(name)] for name in names}, samples)
        if tail:
            return tail.module, tail.samples
    return client.task.module, samples


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().clone(memory_format=torch.contiguous_format)


def _train_only_(module: nn.Module, parameters: Sequence[Tensor]) -> None:
    chosen = {id(parameter) for parameter in parameters}
    for parameter in module.parameters():
        parameter.requires_grad_(id(parameter) in chosen)


def _in_place(optimizer: Optimizer, trained: Tensors, state: Tensors, network: Network) -> Step:
    """The optimizer's step on parameters themselves; its state is changed too."""
    if isinstance(optimizer, SGD):
        return _descent(optimizer, trained, state, network)

    def step(gradients: list[Tensor | None], moment: Moment) -> None:
        known = {name: gradient for name, gradient in zip(trained, gradients, strict=True) if gradient is not None}
        values = {name: parameter.detach() for name, parameter in trained.items()}
        new, changed = optimizer.update(values, known, state, moment, network)
        state.update(changed)
        for name in known:
            trained[name].copy_(new[name])

    return step


def _descent(optimizer: SGD, trained: Tensors, state: Tensors, network: Network) -> Step:
    """SGD in one pass over the parameters of each kind: those with the same rate and decay."""
    factors = optimizer.factors(trained, network)
    decayed = optimizer.decayed(network, frozenset(trained)) if optimizer.weight_decay else frozenset()
    kinds = [(factors[name], optimizer.weight_decay if name in decayed else 0.0) for name in trained]
    velocities = [state["momentum/" + name] for name in trained] if optimizer.momentum else []
    everything = list(zip(kinds, trained.values(), velocities or trained.values(), strict=True))

    def step(gradients: list[Tensor | None], moment: Moment) -> None:
        rate = optimizer.lr * optimizer.schedule(moment)
        if optimizer.clip is not None:
            _clip_(gradients, optimizer.clip)
        for factor, decay in set(kinds):
            used = [
                (parameter, gradient, velocity)
                for (kind, parameter, velocity), gradient in zip(everything, gradients, strict=True)
                if kind == (factor, decay) and gradient is not None
            ]
            dense = [each for each in used if not each[1].is_sparse]
            torch._fused_sgd_(
                [parameter for parameter, _, _ in dense],
                [gradient for _, gradient, _ in dense],
                [velocity for _, _, velocity in dense] if optimizer.momentum else [],
                weight_decay=decay,
                momentum=optimizer.momentum,
                lr=rate * factor,
                dampening=0.0,
                nesterov=optimizer.nesterov,
                maximize=False,
                is_first_step=False,
            )
            for parameter, gradient, _ in used:
                if gradient.is_sparse:
                    parameter.add_(gradient, alpha=-rate * factor)

    return step


def _clip_(gradients: list[Tensor | None], largest: float) -> None:
    known = [gradient for gradient in gradients if gradient is not None]
    if known:
        norm = torch.stack([gradient.square().sum() for gradient in known]).sum().sqrt()
        torch._foreach_mul_(known, torch.clamp(largest / (norm + 1e-6), max=1.0).item())


def _pull(phase: Phase, trained: Tensors, client: Client) -> Callable[[list[Tensor | None]], None] | None:
    """The gradient of a proximal term without a graph; other penalties are differentiated with the loss."""
    if not isinstance(phase.penalty, Proximal):
        return None
    penalty = phase.penalty
    centers = penalty.centers(trained, client)
    places = [(at, trained[name], centers[name]) for at, name in enumerate(trained) if name in centers]

    def pull(gradients: list[Tensor | None]) -> None:
        for at, parameter, center in places:
            distance = parameter - center
            known = gradients[at]
            gradients[at] = (
                distance.mul_(penalty.strength) if known is None else known.add_(distance, alpha=penalty.strength)
            )

    return pull


@contextmanager
def _sparse_embeddings(module: nn.Module, phase: Phase) -> Iterator[None]:
    """A step of plain SGD moves only the rows of the words in the batch, so only theirs are computed."""
    optimizer = phase.optimizer
    plain = isinstance(optimizer, SGD) and not (optimizer.momentum or optimizer.weight_decay or optimizer.clip)
    tables = [
        part
        for part in module.modules()
        if isinstance(part, nn.Embedding) and not part.sparse and part.weight.requires_grad and part.max_norm is None
    ]
    chosen = tables if plain and not phase.penalty else []
    for part in chosen:
        part.sparse = True
    try:
        yield
    finally:
        for part in chosen:
            part.sparse = False
