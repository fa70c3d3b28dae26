"""The fast runner: the module itself is trained, in place. It agrees with the readable one up to rounding."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..core.algorithm import RunPhase
from ..core.client import Client
from ..core.gradients import PLAIN_GRADIENT
from ..core.optimizers import SGD
from ..core.phases import Phase
from ..core.samples import Samples
from ..core.task import Task
from ..randomness import Moment, seeded
from ..tensors import Tensors, network_name, prefixed, under
from . import reference
from .chain import Chain, chain_for
from .features import Features
from .prefix import tail_of
from .stacked import can_stack, run_stacked
from .steps import Gathering, Pull, in_place, plain_descent, pull_of

Learn = Callable[[Samples, Moment], float]
"""A step on a batch; its loss."""


def run_phase(
    phase: Phase,
    clients: Sequence[Client],
    tensors: Sequence[Tensors],
    *,
    cache: bool = True,
    known: Features | None = None,
) -> list[Tensors]:
    """Each client's tensors after a phase; the given ones are left as they are.

    With `cache`, what comes before the layers that are trained is computed once for each sample, where that is exact;
    with `known`, not even that if it was computed in an earlier phase.
    """
    functional = obstacle(phase) is not None
    done: dict[int, Tensors] = {}
    together: dict[Task, list[int]] = {}
    for at, (client, own) in enumerate(zip(clients, tensors, strict=True)):
        if functional or not _in_view(phase, client, own):
            [done[at]] = reference.run_phase(phase, [client], [own])
        elif can_stack(phase, client, own):
            together.setdefault(client.task, []).append(at)
        else:
            done[at] = _run(phase, client, own, cache, known)
    for places in together.values():
        trained = run_stacked(phase, [clients[at] for at in places], [tensors[at] for at in places])
        done.update(zip(places, trained, strict=True))
    return [done[at] for at in range(len(clients))]


def remembering() -> RunPhase:
    """The runner for one simulation: what a client's frozen layers answer is kept from phase to phase."""
    return partial(run_phase, known=Features())


def obstacle(phase: Phase) -> str | None:
    """Why a phase needs the functional form, if it does."""
    if phase.objective:
        return "an objective of its own"
    if phase.on_epoch:
        return "a look at every epoch"
    if phase.gradient != PLAIN_GRADIENT:
        return f"a gradient by {type(phase.gradient).__name__}"
    return None if phase.view.direct else f"weights by {phase.view.text}"


def _in_view(phase: Phase, client: Client, tensors: Tensors) -> bool:
    """Whether all that is trained are weights that the network uses."""
    network = client.task.network
    return phase.trained(network, frozenset(tensors)) <= set(phase.view.sources(tensors, network).values())


def _run(phase: Phase, client: Client, tensors: Tensors, cache: bool, known: Features | None) -> Tensors:
    network, module = client.task.network, client.task.module
    chosen = phase.trained(network, frozenset(tensors))
    names = [name for name in tensors if name in chosen]
    if not names:
        return tensors
    held = client.task.load_(phase.view.weights(tensors, network))
    trained = {name: held[network_name(name)] for name in names}
    _train_only_(module, list(trained.values()))
    state = phase.optimizer.init(trained)
    if phase.carry:
        # Steps change it in place, and what was given stays.
        carried = under("optimizer/", tensors)
        state |= {name: torch.empty_like(state.get(name, old)).copy_(old) for name, old in carried.items()}
    losses: list[list[float]] = []
    client.task.train_(frozenset(map(network_name, names)))
    with (
        seeded(client.moment.seed, "noise/" + client.purpose, client.moment.round, client.id),
        _sparse_embeddings(module, phase),
    ):
        part, samples = _part(phase, client, names, known) if cache else (module, phase.samples(client))
        learn = _learning(phase, client, part, trained, state)
        for moment, (batch,) in phase.moments(client, samples):
            if moment.step == 0:
                if phase.until and losses and phase.until([sum(epoch) / len(epoch) for epoch in losses]):
                    break
                losses.append([])
            losses[-1].append(learn(batch, moment))
            if not math.isfinite(losses[-1][-1]):
                raise reference.diverged("The loss", str(losses[-1][-1]), phase, client)
            if phase.project:
                with torch.no_grad():
                    for name, parameter in trained.items():
                        parameter.copy_(phase.project(name, parameter))
    if not all(map(reference.finite, trained.values())):
        raise reference.diverged("The weights", "not finite", phase, client)
    sources = phase.view.sources(tensors, network)
    moved = {sources[name]: held[name] for name in network.buffers if name in sources}
    kept = {name: _taken(tensor) for name, tensor in (trained | moved).items()}
    return tensors | kept | (prefixed("optimizer/", state) if phase.carry else {})


def _learning(phase: Phase, client: Client, part: nn.Module, trained: Tensors, state: Tensors) -> Learn:
    """A step by hand where the network is a chain of layers, else by automatic gradients."""
    task = client.task
    chain = chain_for(task, part) if task.loss is F.cross_entropy else None
    pull = pull_of(phase, trained, client)
    if chain and (pull or not phase.penalty):
        return _by_hand(phase, client, chain, trained, state, pull)
    step = in_place(phase.optimizer, trained, state, task.network)
    parameters = list(trained.values())

    def learn(batch: Samples, moment: Moment) -> float:
        loss = task.loss(part(batch.inputs), batch.targets)
        value = loss.item()
        if phase.penalty and not pull:
            loss = loss + phase.penalty(trained, client)
        gradients: list[Tensor | None] = [*torch.autograd.grad(loss, parameters, allow_unused=True)]
        with torch.no_grad():
            if pull:
                pull(gradients)
            step(gradients, moment)
        return value

    return learn


def _by_hand(phase: Phase, client: Client, chain: Chain, trained: Tensors, state: Tensors, pull: Pull | None) -> Learn:
    parameters = {name: parameter for name, parameter in trained.items() if isinstance(parameter, nn.Parameter)}
    descent, first = plain_descent(phase, parameters, client), chain.first_trained()
    if descent:

        def descend(batch: Samples, moment: Moment) -> float:
            with torch.no_grad():
                return chain.step(batch.inputs, batch.targets, first, descent)

        return descend
    step = in_place(phase.optimizer, trained, state, client.task.network)

    def learn(batch: Samples, moment: Moment) -> float:
        gathering = Gathering()
        with torch.no_grad():
            loss = chain.step(batch.inputs, batch.targets, first, gathering)
            gradients = [gathering.gradients.get(parameter) for parameter in parameters.values()]
            if pull:
                pull(gradients)
            step(gradients, moment)
        return loss

    return learn


def _part(phase: Phase, client: Client, names: Sequence[str], known: Features | None) -> tuple[nn.Module, Samples]:
    """The part of the network that a step goes through, and the samples as that part sees them."""
    samples, network = phase.samples(client), client.task.network
    if phase.steps_taken(client) >= client.batches_per_epoch(len(samples)):
        # Other samples than those a client trains on may be chosen anew each time.
        remember = partial(known.remember, client.id) if known and samples is client.train else None
        owners = {network.owners[network_name(name)] for name in names}
        tail = tail_of(client.task.module, owners, samples, remember=remember)
        if tail:
            return tail.module, tail.samples
    return client.task.module, samples


def _taken(tensor: Tensor) -> Tensor:
    """The values of a tensor of the module, which has no more use for them: the next phase loads its own."""
    values = tensor.detach()
    if not values.is_contiguous():
        return values.contiguous()
    tensor.data = torch.zeros_like(values)  # What was freed elsewhere is nobody's business.
    return values


def _train_only_(module: nn.Module, parameters: Sequence[Tensor]) -> None:
    chosen = {id(parameter) for parameter in parameters}
    for parameter in module.parameters():
        parameter.requires_grad_(id(parameter) in chosen)


@contextmanager
def _sparse_embeddings(module: nn.Module, phase: Phase) -> Iterator[None]:
    """A step of plain SGD moves only the rows of the words in the batch, so only theirs are computed."""
    optimizer = phase.optimizer
    plain = type(optimizer) is SGD and not (optimizer.momentum or optimizer.weight_decay or optimizer.clip)
    tables = [
        part
        for part in module.modules()
        if isinstance(part, nn.Embedding)
        and not part.sparse
        and part.weight.requires_grad
        and part.max_norm is None
        and not part.scale_grad_by_freq
    ]
    chosen = tables if plain and not phase.penalty else []
    for part in chosen:
        part.sparse = True
    try:
        yield
    finally:
        for part in chosen:
            part.sparse = False
