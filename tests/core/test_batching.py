"""How an epoch is cut into batches, and in which order samples come."""

import pytest
import torch
from hypothesis import given, settings, strategies as st

from partita.core.batching import Batching
from partita.core.client import Client
from partita.core.samples import Samples
from partita.core.task import Task
from partita.errors import PartitaError
from partita.randomness import Moment
from toys import small_network

COUNTS = st.integers(0, 40)
SIZES = st.integers(1, 12)


def numbered(count: int) -> Samples:
    return Samples(torch.arange(count), torch.arange(count))


def order(batching: Batching, count: int, *key: int, seed: int = 0, purpose: str = "train") -> list[int]:
    return [
        int(target) for batch in batching.epoch(numbered(count), False, seed, purpose, *key) for target in batch.targets
    ]


@pytest.mark.parametrize(
    ("samples", "drop_last", "batch_norm", "expected"),
    [
        (7, False, False, [(0, 3), (3, 6), (6, 7)]),
        (7, True, False, [(0, 3), (3, 6)]),
        (7, False, True, [(0, 3), (3, 6)]),
        (8, False, True, [(0, 3), (3, 6), (6, 8)]),
        (6, True, True, [(0, 3), (3, 6)]),
        (2, True, False, []),
        (1, False, True, []),
        (0, False, False, []),
    ],
)
def test_bounds(samples: int, drop_last: bool, batch_norm: bool, expected: list[tuple[int, int]]) -> None:
    assert Batching(3, drop_last=drop_last).bounds(samples, batch_norm) == expected


@settings(deadline=None)
@given(COUNTS, SIZES, st.booleans(), st.booleans())
def test_bounds_lose_only_a_last_small_batch(count: int, size: int, drop_last: bool, batch_norm: bool) -> None:
    bounds = Batching(size, drop_last=drop_last).bounds(count, batch_norm)
    ends = [0, *(end for _, end in bounds)]
    assert [begin for begin, _ in bounds] == ends[:-1]
    assert all(end - begin == size for begin, end in bounds[:-1])
    lost = count - ends[-1]
    assert lost == (count % size if drop_last else 1 if batch_norm and count % size == 1 else 0) or size == 1
    assert not batch_norm or drop_last or all(end - begin > 1 for begin, end in bounds)


@settings(deadline=None)
@given(COUNTS, SIZES, st.integers(0, 5), st.integers(0, 5))
def test_an_epoch_is_a_permutation(count: int, size: int, round: int, client: int) -> None:
    assert sorted(order(Batching(size), count, round, client)) == list(range(count))


@settings(deadline=None)
@given(SIZES, st.tuples(*[st.integers(0, 9)] * 3), st.tuples(*[st.integers(0, 9)] * 3), st.integers(0, 99))
def test_the_order_depends_on_the_key_and_nothing_else(
    size: int, key: tuple[int, int, int], other: tuple[int, int, int], state: int
) -> None:
    torch.manual_seed(state)
    first = order(Batching(size), 30, *key)
    torch.rand(3)
    assert order(Batching(5), 30, *key) == first
    assert (order(Batching(size), 30, *other) == first) == (key == other)
    assert order(Batching(size), 30, *key, seed=1) != first
    assert order(Batching(size), 30, *key, purpose="finetune") != first


def test_without_shuffling_samples_come_as_they_are() -> None:
    assert order(Batching(4, shuffle=False), 10, 3, 1) == list(range(10))


def test_inputs_stay_with_their_targets() -> None:
    samples = Samples(torch.arange(10) * 2, torch.arange(10))
    for batch in Batching(3).epoch(samples, False, 0, "train"):
        assert torch.equal(batch.inputs, batch.targets * 2)


def test_clients_rounds_and_epochs_differ_but_phases_see_the_same_order() -> None:
    task, samples = Task(small_network(norm=False)), numbered(30)

    def seen(client: int, round: int, epoch: int) -> tuple[int, ...]:
        made = Client(client, task, samples, samples.take(slice(0)), Moment(round, 3), Batching(4))
        return tuple(int(target) for batch in made.batches(samples, epoch) for target in batch.targets)

    keys = [(client, round, epoch) for client in range(2) for round in range(2) for epoch in range(2)]
    assert len({seen(*key) for key in keys}) == len(keys)
    assert all(seen(*key) == seen(*key) for key in keys)


@pytest.mark.parametrize("norm", [True, False])
def test_a_client_counts_the_batches_it_makes(norm: bool) -> None:
    task = Task(small_network(norm=norm))
    for count in range(12):
        client = Client(0, task, numbered(count), numbered(0), batching=Batching(3))
        assert client.batches_per_epoch(count) == len(list(client.batches(client.train, 0)))


@pytest.mark.parametrize("size", [0, -3])
def test_a_batch_has_at_least_one_sample(size: int) -> None:
    with pytest.raises(PartitaError, match=r"size is .*, but must be a whole number, from 1 to"):
        Batching(size)
