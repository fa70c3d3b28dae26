"""A law of all methods: the same bits, in the same order, whoever does the work and however many they are."""

import multiprocessing
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from bits import Noting, bits, digest
from experiment.small import DATA, Wide, run
from laws.methods import ALGORITHMS, brief
from partita.algorithms.fedamp import fedamp
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedbabu import fedbabu
from partita.algorithms.fedper import fedper
from partita.algorithms.flayer import flayer
from partita.algorithms.lg_fedavg import lg_fedavg
from partita.core.algorithm import Algorithm
from partita.core.optimizers import adam
from partita.core.samples import Samples
from partita.data.federation import federate
from partita.data.pool import pool
from partita.data.splits.dirichlet import dirichlet
from partita.experiment import jobs
from partita.experiment.executor import CarryOut, Executor, executor_of
from partita.experiment.executors.inline import Inline
from partita.experiment.executors.processes import Processes
from partita.experiment.experiment import Pretraining
from partita.experiment.jobs import ClientResult, Job
from partita.experiment.setup import Setup
from partita.models.mlp import mlp
from partita.servers.averaging import averaging
from partita.tensors import Tensors
from repetition import repeated
from toys import small_network
from watching import nothing_left

FORK = multiprocessing.get_context("fork")
# In single precision another order of a sum is another number.
SINGLE = replace(DATA, samples=Samples(DATA.samples.inputs.float(), DATA.samples.targets))


def all_bits(name: str, on: Executor | str) -> str:
    """Of the server's state, of all that clients keep and send in every round, and of metrics and traffic."""
    noting = Noting(executor_of(on))
    result = run(ALGORITHMS[name], noting, model=small_network().float(), data=SINGLE)
    return digest(result.state, result.own, result.records, result.traffic, noting.noted)


@cache
def alone(name: str) -> str:
    return all_bits(name, "inline")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_any_number_of_workers_gives_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of four clients in each round, a newcomer who never trains, and small clients by themselves or together."""
    with nothing_left():
        assert all_bits(name, "processes:2") == alone(name)
        assert all_bits(name, "processes:3") == alone(name)
        monkeypatch.setattr(jobs, "SAMPLES_PER_JOB", 12)
        assert all_bits(name, "processes:2") == alone(name)
        assert all_bits(name, "inline") == alone(name)


@pytest.mark.parametrize("name", repeated(["flayer official", "apple", "fedrep", "scaffold"]))
def test_workers_that_are_spawned_give_the_same_bits(name: str) -> None:
    """They have another seed of hashes, so that nothing may depend on the order of a set."""
    with nothing_left():
        assert all_bits(name, Processes(2, "spawn")) == alone(name)


def test_more_workers_than_clients() -> None:
    with nothing_left():
        assert all_bits("fedper", "processes:7") == alone("fedper")


def test_networks_of_different_sizes() -> None:
    draw = np.random.default_rng(3)
    labels = draw.integers(0, 6, 300)
    rows = (labels[:, None] + draw.normal(size=(300, 4))).astype(np.float32)
    data = federate(pool("tiny", rows, labels), dirichlet(clients=5, alpha=0.3, smallest=12), own_labels=True)
    assert len({data.classes_of(client) for client in range(5)}) > 1
    results = [run(fedper(), f"processes:{workers}", model=mlp, data=data) for workers in (1, 2, 3)]
    assert len({bits(result) for result in results}) == 1
    assert len({tuple(own["head.weight"].shape) for own in results[0].own.values()}) > 1


def test_clients_that_are_absent_work_too() -> None:
    algorithm = brief(flayer(variant="official", on=fedper(), everyone=True))
    assert algorithm.absent
    results = [run(algorithm, f"processes:{workers}", participation=0.3) for workers in (1, 2, 3)]
    assert len({bits(result) for result in results}) == 1
    assert results[0].own.keys() == {0, 1, 2, 4}, "all but the newcomer keep something"


@pytest.mark.parametrize(
    ("algorithm", "options"),
    [
        (lg_fedavg(), {"pretrain": Pretraining(fedavg(), 3)}),
        (fedamp(alpha=0.2, sigma=1.0), {}),
        (fedbabu(epochs=2), {"buffers": "local"}),
        (fedavg(), {"server": averaging(optimizer=adam(0.05))}),
    ],
    ids=["pretrain", "norm", "babu", "adam"],
)
def test_experiments_with_their_stages(
    algorithm: Algorithm, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for workers in ("1", "2", "3"):
        monkeypatch.setenv("PARTITA_WORKERS", workers)
        found.append(bits(run(algorithm, "processes", rounds=5, participation=0.5, evaluate_every=2, **options)))
    assert len(set(found)) == 1


def test_large_tensors_travel_in_files() -> None:
    torch.manual_seed(0)
    module = Wide()
    with nothing_left():
        results = [run(ALGORITHMS["ditto"], f"processes:{workers}", model=module) for workers in (1, 2, 3)]
    assert len({bits(result) for result in results}) == 1
    for own in results[1].own.values():
        for tensor in own.values():
            tensor.add_(1)  # One's own memory, that outlives the workers.
            assert tensor.untyped_storage().nbytes() == tensor.nbytes


def test_what_was_done_before_does_not_matter() -> None:
    """Several threads, a gradient and random numbers of one's own before workers are forked; all stays as it was."""
    expected = alone("fedrep")
    torch.manual_seed(1)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        large = torch.randn(300, 300, requires_grad=True)
        torch.autograd.grad((large @ large).sum(), large)
        state = torch.get_rng_state()
        assert all_bits("fedrep", "processes:2") == expected
        assert torch.get_num_threads() == 2
        assert torch.equal(state, torch.get_rng_state())
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_settings_of_torch_reach_workers(start: str) -> None:
    """What a loss makes of `torch.zeros` depends on the default type."""

    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        third = torch.ones(()) / 3
        return torch.nn.functional.cross_entropy(outputs, targets) * third.item()

    before = torch.get_default_dtype()
    try:
        torch.set_default_dtype(torch.float64)
        wide = bits(run(fedavg(), "inline", loss=loss))
        assert bits(run(fedavg(), Processes(2, start), loss=loss)) == wide  # type: ignore[arg-type]
    finally:
        torch.set_default_dtype(before)
    assert bits(run(fedavg(), "inline", loss=loss)) != wide


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_process_that_may_have_no_children_does_the_work_itself() -> None:
    queue = FORK.SimpleQueue()
    process = FORK.Process(target=lambda: queue.put(all_bits("fedper", "processes:2")), daemon=True)
    process.start()
    assert queue.get() == alone("fedper")
    process.join()


@dataclass
class Reversed:
    """Results come in another order than jobs."""

    @contextmanager
    def open(self, setup: Setup) -> Iterator[CarryOut]:
        with Inline().open(setup) as inner:

            def carry_out(jobs: Iterable[Job], state: Tensors) -> Generator[ClientResult, None, None]:
                yield from reversed(list(inner(jobs, state)))

            yield carry_out


@pytest.mark.parametrize("name", ["fedper", "scaffold", "flayer", "fedamp"])
def test_results_may_come_in_any_order(name: str) -> None:
    assert all_bits(name, Reversed()) == alone(name)
