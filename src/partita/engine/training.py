"""How is one client trained fast? In the module itself, in place, by the shortcuts that are allowed."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from ..core.client import Client
from ..core.network import Network
from ..core.optimizers import SGD
from ..core.phases import Phase
from ..core.samples import Samples
from ..core.soundness import finite
from ..randomness import Moment
from ..tensors import Tensors, network_name, prefixed, under
from . import reference
from .chain import Chain, Chains
from .eligibility import known_layer
from .features import Features
from .kernels import fast_kernels
from .prefix import tail_of
from .shortcuts import Shortcut, Shortcuts
from .steps import Gathering, Pull, Step, descending, descends_at_once, descends_by_rows, fused, in_place, pull_of

Learn = Callable[[Samples, Moment], float]
"""A step on a batch; its loss."""


def train(
    phase: Phase, client: Client, tensors: Tensors, shortcuts: Shortcuts, chains: Chains, features: Features | None
) -> Tensors:
    """The client's tensors after the phase; with `features`, those of frozen layers may be known from another phase."""
    network, module = client.task.network, client.task.module
    chosen = phase.trained(network, frozenset(tensors))
    names = [name for name in tensors if name in chosen]
    held = client.task.load_(phase.view.weights(tensors, network))
    trained = {name: held[network_name(name)] for name in names}
    _train_only_(module, list(trained.values()))
    state = phase.optimizer.init(trained)
    if phase.carry:
        # Steps change the state in place, and the given one must stay as it is.
        carried = under("optimizer/", tensors)
        state |= {name: torch.empty_like(state.get(name, old)).copy_(old) for name, old in carried.items()}
    losses: list[list[float]] = []
    client.task.train_(frozenset(map(network_name, names)))
    with (
        client.seeded("noise/" + client.purpose),
        _sparse_embeddings(module if Shortcut.SPARSE in shortcuts else None),
    ):
        part, samples = _part(phase, client, names, shortcuts, features)
        learn = _learning(phase, client, part, samples, trained, state, shortcuts, chains)
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
    if not all(map(finite, trained.values())):
        raise reference.diverged("The weights", "not finite", phase, client)
    _gather_buffers_(network, held)
    sources = phase.view.sources(tensors, network)
    moved = {sources[name]: held[name] for name in network.buffers if name in sources}
    kept = {name: _taken(tensor) for name, tensor in (trained | moved).items()}
    return tensors | kept | (prefixed("optimizer/", state) if phase.carry else {})


def _learning(
    phase: Phase,
    client: Client,
    part: nn.Module,
    samples: Samples,
    trained: Tensors,
    state: Tensors,
    shortcuts: Shortcuts,
    chains: Chains,
) -> Learn:
    """A step by hand where that is allowed and the network is a chain of layers, else by autograd."""
    task, pull = client.task, pull_of(phase, trained, client)
    chain = chains.of(part) if Shortcut.BY_HAND in shortcuts and (pull or not phase.penalty) else None
    if chain and chain.accepts(1 + len(samples.kind[0])):
        return _by_hand(phase, client, chain, trained, state, pull, shortcuts)
    step = _step(phase, client, trained, state, shortcuts)
    parameters, by_rows, faster = list(trained.values()), descends_by_rows(phase), fast_kernels(part)

    def learn(batch: Samples, moment: Moment) -> float:
        with faster:
            loss = task.loss(part(batch.inputs), batch.targets)
        value = loss.item()
        if phase.penalty and not pull:
            loss = loss + phase.penalty(trained, client)
        gradients: list[Tensor | None] = [None] * len(parameters)
        if loss.requires_grad or not pull:
            gradients = [*torch.autograd.grad(loss, parameters, allow_unused=True)]
        if not by_rows:
            gradients = [None if gradient is None else reference.dense(gradient) for gradient in gradients]
        with torch.no_grad():
            if pull:
                pull(gradients)
            step(gradients, moment)
        return value

    return learn


def _by_hand(
    phase: Phase,
    client: Client,
    chain: Chain,
    trained: Tensors,
    state: Tensors,
    pull: Pull | None,
    shortcuts: Shortcuts,
) -> Learn:
    parameters = {name: cast(nn.Parameter, parameter) for name, parameter in trained.items()}
    first = chain.first_trained()
    if Shortcut.FUSED in shortcuts and descends_at_once(phase):
        descent = descending(phase, parameters, client)

        def descend(batch: Samples, moment: Moment) -> float:
            with torch.no_grad():
                return chain.step(batch.inputs, batch.targets, first, descent)

        return descend
    step = _step(phase, client, trained, state, shortcuts)

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


def _step(phase: Phase, client: Client, trained: Tensors, state: Tensors, shortcuts: Shortcuts) -> Step:
    if Shortcut.FUSED in shortcuts:
        return fused(cast(SGD, phase.optimizer), trained, state, client)
    return in_place(phase.optimizer, trained, state, client)


def _part(
    phase: Phase, client: Client, names: Sequence[str], shortcuts: Shortcuts, features: Features | None
) -> tuple[nn.Module, Samples]:
    """The part of the network that a step goes through, and the samples as that part sees them."""
    samples, network = phase.samples(client), client.task.network
    resume = Shortcut.RESUMED in shortcuts
    if resume or Shortcut.FEATURES in shortcuts:
        # Samples other than the training data may be chosen again for each phase.
        known = partial(features.remember, client.id, client.purpose) if features and samples is client.train else None
        owners = {network.owners[network_name(name)] for name in names}
        tail = tail_of(client.task.module, owners, samples, remember=known, resume=resume)
        if tail:
            return tail.module, tail.samples
    return client.task.module, samples


def _gather_buffers_(network: Network, held: Tensors) -> None:
    """A forward pass may have assigned another tensor to a buffer; its values go to the one that is held."""
    for name in network.buffers:
        owner, place = network.owners[name], name.rpartition(".")[2]
        now = owner._buffers[place]
        if now is not None and now is not held[name]:
            held[name].copy_(now.detach())
            owner._buffers[place] = held[name]


def _taken(tensor: Tensor) -> Tensor:
    """The values of a tensor of the module, without a copy: the next phase loads its own into the module.

    The module's tensor becomes zeros rather than uninitialised memory, so that no result could depend on the latter.
    """
    values = tensor.detach()
    if not values.is_contiguous():
        return values.contiguous()
    tensor.data = torch.zeros_like(values)
    return values


def _train_only_(module: nn.Module, parameters: Sequence[Tensor]) -> None:
    chosen = {id(parameter) for parameter in parameters}
    for parameter in module.parameters():
        parameter.requires_grad_(id(parameter) in chosen)


@contextmanager
def _sparse_embeddings(module: nn.Module | None) -> Iterator[None]:
    """Only the rows of the words in a batch have a gradient that is not zero, so only these are computed."""
    tables = [
        part
        for part in (module.modules() if module else ())
        if isinstance(part, nn.Embedding)
        and known_layer(part)
        and not part.sparse
        and part.weight.requires_grad
        and part.max_norm is None
        and not part.scale_grad_by_freq
    ]
    for part in tables:
        part.sparse = True
    try:
        yield
    finally:
        for part in tables:
            part.sparse = False
