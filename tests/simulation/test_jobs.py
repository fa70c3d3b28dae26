"""Who does what: every client is in one job, every job is given once, and clients stay with their workers."""

import math
import os
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st

from laws.methods import ALGORITHMS
from partita.algorithms.fedavg import fedavg
from partita.core.client import Client
from partita.core.phases import Phase
from partita.engine.fast import FastEngine
from partita.randomness import Moment
from partita.simulation import jobs as division
from partita.simulation.executors._pool import AHEAD, Queue
from partita.simulation.experiment import Experiment
from partita.simulation.jobs import Job, Train, jobs
from partita.simulation.setup import Setup
from partita.tensors import Tensors
from simulation.small import run
from toys import small_federation, small_network


def setup_of(sizes: Sequence[int]) -> Setup:
    experiment = Experiment(fedavg(), small_network(), small_federation(sizes))
    return Setup.of(experiment, experiment.stages[-1], {})


@given(st.lists(st.integers(3, 60), min_size=1, max_size=12), st.integers(1, 100))
def test_every_client_is_in_one_job_and_large_ones_come_first(sizes: list[int], together: int) -> None:
    setup, states = setup_of(sizes), {0: {"a": torch.ones(1)}}
    state = {"b": torch.ones(2)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(division, "SAMPLES_PER_JOB", together)
        patch.setattr(division, "PARAMETERS_PER_SAMPLE", math.inf)
        found = list(jobs(Train, setup, range(len(sizes)), states, state, Moment(), evaluated=True))
    order = [client for job in found for client in job.clients]
    assert sorted(order) == list(range(len(sizes)))
    assert [sizes[client] for client in order] == sorted(sizes, reverse=True)
    for job, after in pairwise([*found, None]):
        assert job
        held = sum(sizes[client] for client in job.clients)
        assert held <= together or len(job.clients) == 1
        assert after is None or held + sizes[after.clients[0]] > together
    assert all((job.own[job.clients.index(0)] is states[0]) for job in found if 0 in job.clients)
    assert all(received["b"] is state["b"] for job in found for received in job.received)
    assert all(isinstance(job, Train) and job.evaluated for job in found)


def test_copying_a_network_counts_as_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = setup_of([5] * 8)
    monkeypatch.setattr(division, "SAMPLES_PER_JOB", 20)
    monkeypatch.setattr(division, "PARAMETERS_PER_SAMPLE", setup.parameters / 5)
    made = jobs(Train, setup, range(8), {}, {}, Moment())
    assert [list(job.clients) for job in made] == [[0, 1], [2, 3], [4, 5], [6, 7]]


class Somebody:
    """A worker, as far as it matters whose clients were whose."""


def of_clients(clients: Iterable[int]) -> Iterator[Job]:
    return (Train([client], [{}], [{}], Moment()) for client in clients)


@given(
    st.lists(st.lists(st.integers(0, 40), unique=True), max_size=4),
    st.integers(1, 3),
    st.randoms(use_true_random=False),
)
def test_every_job_is_given_once_and_clients_stay_with_their_workers(
    rounds: list[list[int]], count: int, chance: random.Random
) -> None:
    workers: list[Any] = [Somebody() for _ in range(count)]
    before: dict[int, Any] = {}
    for clients in rounds:
        waiting = Queue(of_clients(clients), before)
        left = list(clients)
        while left:
            worker = chance.choice(workers)
            job = waiting.next_for(worker)
            assert job
            [client] = job.clients
            near = left[:AHEAD]
            own = [each for each in near if before.get(each) is worker]
            assert client == (own or near)[0], "the first that it had before, else the first"
            left.remove(client)
        assert all(waiting.next_for(worker) is None for worker in workers)
        before = waiting.given


def test_jobs_that_are_far_off_are_not_made_yet() -> None:
    made: list[int] = []

    def coming() -> Iterator[int]:
        for client in range(100):
            made.append(client)
            yield client

    worker = Somebody()
    first = Queue(of_clients(coming()), {99: worker}).next_for(worker)
    assert first
    assert list(first.clients) == [0]
    assert len(made) == AHEAD


def test_workers_go_on_with_their_clients(tmp_path: Path) -> None:
    """Two workers, four clients, two of them slow: whoever had a client gets it again if nobody must wait for it."""
    run(ALGORITHMS["fedrep"], "processes:2", rounds=4, participation=1.0, run_phase=partial(signing, place=tmp_path))
    signed = [line.split() for line in (tmp_path / "log").read_text().splitlines()]
    by = Counter((client, pid) for client, pid in signed)
    assert len({pid for _, pid in by}) == 2
    for client in {client for client, _ in by}:
        most = max(times for (each, _), times in by.items() if each == client)
        assert most >= 0.7 * sum(times for (each, _), times in by.items() if each == client)


def signing(phase: Phase, clients: Sequence[Client], tensors: Sequence[Tensors], *, place: Path) -> list[Tensors]:
    """An engine for which every client takes a while, and which notes whose it was."""
    for client in clients:
        time.sleep(0.05)
        with (place / "log").open("a") as log:
            log.write(f"{client.id} {os.getpid()}\n")
    return FastEngine()(phase, clients, tensors)
