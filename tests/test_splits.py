"""Splits among clients, and the roles of a client's data: nothing is lost and nothing is used twice."""

import time
from collections.abc import Callable, Iterable
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

from partita.data.digits import digits
from partita.errors import PartitaError
from partita.federation import into_roles
from partita.splits import dirichlet, iid

Split = Callable[[Tensor, int, int], list[Tensor]]
SPLITS: dict[str, Split] = {
    "iid": iid,
    "dirichlet": dirichlet,
    "dirichlet 0.01": lambda targets, clients, seed: dirichlet(targets, clients, seed, alpha=0.01, smallest=2),
    "dirichlet 1e-6": lambda targets, clients, seed: dirichlet(targets, clients, seed, alpha=1e-6, smallest=1),
    "dirichlet 100": lambda targets, clients, seed: dirichlet(targets, clients, seed, alpha=100.0, smallest=2),
}


def labels(count: int, classes: int) -> Tensor:
    return torch.arange(count) % classes


def is_partition(parts: Iterable[Tensor], of: Tensor) -> bool:
    return torch.equal(torch.cat(list(parts)).sort().values, of)


@pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS)
def test_a_split_is_a_partition(split: Split) -> None:
    for clients in (1, 2, 7, 20):
        parts = split(labels(201, 5), clients, 3)
        assert len(parts) == clients
        assert is_partition(parts, torch.arange(201))


@pytest.mark.parametrize("split", SPLITS.values(), ids=SPLITS)
def test_the_seed_decides_the_split(split: Split) -> None:
    first, again, other = (split(labels(200, 4), 8, seed) for seed in (1, 1, 2))
    assert all(torch.equal(left, right) for left, right in zip(first, again, strict=True))
    assert any(not torch.equal(left, right) for left, right in zip(first, other, strict=True))


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 30), st.integers(1, 12), st.floats(1e-3, 1e3), st.integers(0, 5), st.integers(0, 99), st.data())
def test_dirichlet_gives_every_client_the_minimum(
    clients: int, classes: int, alpha: float, smallest: int, seed: int, data: st.DataObject
) -> None:
    least = max(clients * smallest, 1)
    targets = labels(data.draw(st.integers(least, least + 100)), classes)
    parts = dirichlet(targets, clients, seed, alpha=alpha, smallest=smallest)
    assert min(map(len, parts)) >= smallest
    assert is_partition(parts, torch.arange(len(targets)))


@settings(deadline=None)
@given(st.integers(0, 60), st.integers(1, 20), st.integers(0, 99))
def test_iid_shares_are_equal(count: int, clients: int, seed: int) -> None:
    parts = iid(labels(count, 3), clients, seed)
    assert is_partition(parts, torch.arange(count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_small_alpha_makes_clients_more_different() -> None:
    def classes_per_client(alpha: float) -> float:
        targets = labels(2000, 10)
        parts = dirichlet(targets, 20, 0, alpha=alpha, smallest=1)
        return sum(len(set(targets[part].tolist())) for part in parts) / 20

    assert classes_per_client(0.05) < classes_per_client(0.5) < classes_per_client(50.0)


def test_dirichlet_ends_also_where_it_is_hard() -> None:
    """Rejection would never find 500 clients with 10 samples each at alpha = 0.01; this takes a moment."""
    began = time.process_time()
    parts = dirichlet(labels(20_000, 100), 500, 0, alpha=0.01, smallest=10)
    assert time.process_time() - began < 3
    assert min(map(len, parts)) >= 10
    assert is_partition(parts, torch.arange(20_000))


def test_dirichlet_can_use_every_sample_for_the_minimum() -> None:
    assert {len(part) for part in dirichlet(labels(100, 3), 10, 0, alpha=0.01, smallest=10)} == {10}


def test_more_than_there_is_cannot_be_split() -> None:
    with pytest.raises(PartitaError, match=r"99 samples cannot give 10 clients at least 10 each\. Take fewer clients"):
        dirichlet(labels(99, 3), 10, 0)


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan")])
def test_alpha_must_be_positive(alpha: float) -> None:
    with pytest.raises(PartitaError, match="alpha must be above 0"):
        dirichlet(labels(100, 3), 2, 0, alpha=alpha)


@pytest.mark.parametrize("clients", [0, -2])
@pytest.mark.parametrize("split", [iid, dirichlet])
def test_a_split_needs_clients(split: Split, clients: int) -> None:
    with pytest.raises(PartitaError, match="client"):
        split(labels(100, 3), clients, 0)


FRACTIONS = st.just(0.0) | st.floats(0.01, 0.95)


@settings(deadline=None)
@given(st.integers(0, 50), st.integers(0, 9), FRACTIONS, FRACTIONS)
def test_roles_are_disjoint_and_complete(count: int, client: int, validation: float, test: float) -> None:
    indices = torch.arange(count) * 3 + 1
    roles = into_roles(indices, 0, client, validation, test)
    assert set(roles) == {"train", "validation", "test"}
    assert not any(set(a.tolist()) & set(b.tolist()) for a, b in combinations(roles.values(), 2))
    assert is_partition(roles.values(), indices)
    assert len(roles["train"]) > 0 or not count
    assert validation or not len(roles["validation"])
    assert test or not len(roles["test"])


@settings(deadline=None)
@given(st.integers(3, 50), st.floats(0.01, 0.95), st.floats(0.01, 0.95))
def test_every_role_has_a_sample_where_there_are_three(count: int, validation: float, test: float) -> None:
    assert all(len(part) > 0 for part in into_roles(torch.arange(count), 0, 0, validation, test).values())


def test_roles_have_the_sizes_asked_for() -> None:
    sizes = {role: len(part) for role, part in into_roles(torch.arange(100), 0, 0, 0.2, 0.25).items()}
    assert sizes == {"test": 25, "validation": 15, "train": 60}


def test_roles_depend_on_seed_and_client() -> None:
    cuts = [into_roles(torch.arange(40), seed, client, 0.2, 0.25)["test"] for seed in (0, 1) for client in (0, 1)]
    assert len({tuple(sorted(cut.tolist())) for cut in cuts}) == 4


@pytest.mark.parametrize(("validation", "test"), [(-0.1, 0.25), (0.2, 1.0), (0.2, 1.5), (0.2, -0.25)])
def test_a_role_is_a_fraction(validation: float, test: float) -> None:
    with pytest.raises(PartitaError, match=r"fraction|share|between"):
        into_roles(torch.arange(40), 0, 0, validation, test)


@pytest.mark.parametrize("split", ["dirichlet", "iid"])
def test_digits_are_used_once(split: str) -> None:
    data = digits(clients=10, split=split)  # type: ignore[arg-type]
    assert is_partition((part for roles in data.roles for part in roles.values()), torch.arange(1797))
    assert (len(data), data.classes, data.shape) == (10, 10, (1, 8, 8))
    assert 0 <= data.samples.inputs.min() <= data.samples.inputs.max() <= 1


DIGITS = digits(clients=5)
TRAINING = {
    tuple(pixels) for roles in DIGITS.roles for pixels in DIGITS.samples.inputs[roles["train"]].flatten(1).tolist()
}


@settings(deadline=None)
@given(st.floats(0, 1), st.integers(0, 5))
def test_the_servers_sample_is_of_training_data(fraction: float, seed: int) -> None:
    held = DIGITS.sample_of_training(fraction, seed)
    assert len(held) == int(fraction * sum(DIGITS.sizes) + 1e-9)
    assert {tuple(image) for image in held.inputs.flatten(1).tolist()} <= TRAINING
