"""Who does what: every client is in one job, every job is given once, and clients stay with their workers."""

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, strategies as st

from partita.algorithms.fedavg import fedavg
from partita.experiment import jobs as division
from partita.experiment.executors._pool import AHEAD, Queue
from partita.experiment.experiment import Experiment
from partita.experiment.jobs import Job, Train, jobs
from partita.experiment.setup import Setup
from partita.randomness import Moment
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
