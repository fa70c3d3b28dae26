"""Many small clients at once: each comes out as if it had been alone, whoever else is there."""

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn
from torch.nn import functional as F

from partita.core.batching import Batching
from partita.core.client import Client
from partita.core.optimizers import SGD
from partita.core.phases import Phase
from partita.core.samples import Samples
from partita.core.selectors import HEAD, NETWORK, WEIGHTS
from partita.core.task import Task
from partita.core.views import copy
from partita.engine import reference
from partita.engine.chain import Chains
from partita.engine.fast import FastEngine
from partita.engine.shortcuts import Shortcut, case_of, eligible
from partita.engine.stacked import run_stacked
from partita.errors import DivergedError
from partita.randomness import Moment
from partita.tensors import Tensors

TWIN = copy("twin/")
PHASES = {
    "one epoch": Phase(NETWORK, SGD(0.3)),
    "three epochs, decay": Phase(NETWORK, SGD(0.2, weight_decay=0.1), epochs=3),
    "decay of weights alone": Phase(NETWORK, SGD(0.2, weight_decay=0.1, decayed=WEIGHTS), epochs=2),
    "head": Phase(HEAD, SGD(0.3), epochs=2),
    "body": Phase(NETWORK & ~HEAD, SGD(0.3), epochs=2),
    "rates": Phase(NETWORK, SGD(0.3, rates=((HEAD, 0.1),))),
    "steps": Phase(NETWORK, SGD(0.3), steps=3),
    "steps within epochs": Phase(NETWORK, SGD(0.3, weight_decay=0.1), epochs=2, steps=5),
    "a second set of weights": Phase(TWIN.place(NETWORK), SGD(0.3), view=TWIN),
}


def network(bias: bool = True) -> nn.Module:
    layers = [nn.Linear(5, 7, bias=bias), nn.ReLU(), nn.Linear(7, 3, bias=bias)]
    return nn.Sequential(nn.Flatten(), *layers).double()


def clients(task: Task, sizes: Sequence[int], size: int = 4) -> tuple[list[Client], list[Tensors]]:
    """Clients of these sizes, each with weights of its own."""
    draw = torch.Generator().manual_seed(1)
    made, held = [], []
    for number, count in enumerate(sizes):
        inputs = torch.rand(count, 5, generator=draw, dtype=torch.float64)
        samples = Samples(inputs, torch.randint(3, (count,), generator=draw))
        made.append(Client(number, task, samples, samples.take(slice(0)), Moment(2, 5, 3), Batching(size)))
        own = {
            name: t + 0.1 * torch.rand(t.shape, generator=draw, dtype=torch.float64) for name, t in task.weights.items()
        }
        held.append(own | {f"twin/{name}": tensor + 0.2 for name, tensor in own.items()})
    return made, held


def can_stack(phase: Phase, client: Client, tensors: Tensors) -> bool:
    return Shortcut.STACKED in (eligible(phase, case_of(phase, client, tensors), tensors, Chains()) or ())


def stacked(phase: Phase, some: Sequence[Client], tensors: Sequence[Tensors]) -> list[Tensors]:
    chain = Chains().of(some[0].task.module)
    assert chain
    return run_stacked(phase, some, tensors, chain)


def far(one: Tensors, other: Tensors) -> float:
    assert list(one) == list(other)
    return max(float((one[name] - other[name]).abs().max()) for name in one)


@pytest.mark.parametrize("phase", PHASES.values(), ids=PHASES)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_each_is_as_if_alone(phase: Phase, bias: bool) -> None:
    """Sizes of one batch and of several, whole ones and not, so that some wait while others have steps to make."""
    some, tensors = clients(Task(network(bias)), [1, 3, 4, 9, 10, 17])
    assert all(can_stack(phase, client, own) for client, own in zip(some, tensors, strict=True))
    before = [{name: tensor.clone() for name, tensor in own.items()} for own in tensors]
    together = stacked(phase, some, tensors)
    for client, own, kept, found in zip(some, tensors, before, together, strict=True):
        [alone] = reference.run_phase(phase, [client], [own])
        assert far(found, alone) < 1e-13
        assert far(own, kept) == 0, "what was given stays"
        assert far(found, own) > 0


@given(sizes=st.lists(st.integers(1, 25), min_size=1, max_size=12), size=st.integers(1, 12))
def test_any_sizes(sizes: list[int], size: int) -> None:
    phase = PHASES["three epochs, decay"]
    some, tensors = clients(Task(network()), sizes, size)
    for found, alone in zip(stacked(phase, some, tensors), reference.run_phase(phase, some, tensors), strict=True):
        assert far(found, alone) < 1e-12


def test_bits_do_not_depend_on_who_else_is_there() -> None:
    """Of clients of one size, as the jobs of a round mostly hold."""
    phase, sizes = PHASES["one epoch"], [12] * 9
    some, tensors = clients(Task(network()), sizes)
    run_phase = FastEngine()
    together = run_phase(phase, some, tensors)
    for at, (client, own) in enumerate(zip(some, tensors, strict=True)):
        [alone] = run_phase(phase, [client], [own])
        assert far(together[at], alone) == 0


def test_where_it_is_not_used() -> None:
    task = Task(network())
    [client], [tensors] = clients(task, [8])
    for phase in (
        Phase(NETWORK, SGD(0.1, momentum=0.9)),
        Phase(NETWORK, SGD(0.1, clip=1.0)),
        Phase(NETWORK, SGD(0.1), until=lambda losses: True),
        Phase(NETWORK, SGD(0.1), project=lambda name, tensor: tensor),
        Phase(NETWORK, SGD(0.1), penalty=lambda trained, client: torch.zeros(())),
    ):
        assert not can_stack(phase, client, tensors)
    others = (
        Task(nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.Linear(7, 3))),
        Task(nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))),
        Task(nn.Sequential(nn.Linear(5, 1 << 14), nn.ReLU(), nn.Linear(1 << 14, 3))),
        Task(network(), loss=lambda outputs, targets: F.cross_entropy(outputs, targets, label_smoothing=0.1)),
    )
    for task in others:
        [client], [tensors] = clients(task, [8])
        assert not can_stack(PHASES["one epoch"], client, tensors)


def test_the_client_that_diverges_is_named() -> None:
    some, tensors = clients(Task(network()), [8, 8, 8])
    tensors[1]["1.weight"][0, 0] = float("nan")
    with pytest.raises(DivergedError, match="client 1 became nan"):
        stacked(PHASES["one epoch"], some, tensors)
