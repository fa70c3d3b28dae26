"""The server's average: against a naive one, and its laws."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays

from partita.core.network import Network
from partita.core.optimizers import SGD, adam
from partita.core.server import PRIVATE, Update, pseudo_gradient
from partita.core.task import Task
from partita.errors import PartitaError
from partita.randomness import Moment
from partita.servers.averaging import averaging
from partita.tensors import Tensors, prefixed, under
from toys import scalar_task

Array = np.ndarray[tuple[int, ...], np.dtype[np.float32]]
SHAPE = (2, 3)
NETWORK: Network = Task(torch.nn.Linear(2, 2)).network
NUMBERS = arrays.arrays(np.float32, SHAPE, elements=st.floats(-100, 100, width=32))
MASKS = st.none() | arrays.arrays(np.bool_, SHAPE)


@dataclass(frozen=True)
class Sent:
    """An update as numpy arrays: of `a` perhaps only some entries, `b` perhaps not at all."""

    a: Array
    mask: "np.ndarray[tuple[int, ...], np.dtype[np.bool_]] | None"
    b: Array | None
    samples: int
    batches: int

    def update(self, client: int) -> Update:
        values = {"a": torch.tensor(self.a)} | ({} if self.b is None else {"b": torch.tensor(self.b)})
        mask = None if self.mask is None else {"a": torch.tensor(self.mask)}
        return Update(client, values, samples=self.samples, batches=self.batches, mask=mask)


COUNTS = st.integers(1, 500)
SENT = st.lists(st.builds(Sent, NUMBERS, MASKS, st.none() | NUMBERS, COUNTS, COUNTS), min_size=1, max_size=5)
Weights = Literal["samples", "uniform", "batches"]
WEIGHTS = st.sampled_from(["samples", "uniform", "batches"])


def shared_of(a: Array, b: Array) -> Tensors:
    return {"a": torch.tensor(a), "b": torch.tensor(b)}


def average(shared: Tensors, sent: list[Sent], weights: Weights = "samples", order: list[int] | None = None) -> Tensors:
    server = averaging(weights=weights)
    updates = [sent[client].update(client) for client in order or range(len(sent))]
    return server.aggregate(server.init(shared, [1] * len(sent)), updates, Moment(), NETWORK)


def naive(old: Array, new: list[tuple[Array, object, float]]) -> Array:
    """Entry by entry: the weighted mean of those who sent it, or the old value."""
    result = old.astype(np.float64)
    for at in np.ndindex(*old.shape):
        sent = [(float(value[at]), weight) for value, mask, weight in new if mask is None or mask[at]]  # type: ignore[index]
        if sent:
            result[at] = sum(value * weight for value, weight in sent) / sum(weight for _, weight in sent)
    return result.astype(np.float32)


@settings(deadline=None)
@given(NUMBERS, NUMBERS, SENT, WEIGHTS)
def test_the_average_of_what_was_sent(a: Array, b: Array, sent: list[Sent], weights: Weights) -> None:
    result = average(shared_of(a, b), sent, weights)
    weighed = [(one, 1.0 if weights == "uniform" else float(getattr(one, weights))) for one in sent]
    expected_a = naive(a, [(one.a, one.mask, weight) for one, weight in weighed])
    expected_b = naive(b, [(one.b, None, weight) for one, weight in weighed if one.b is not None])
    np.testing.assert_allclose(result["a"].numpy(), expected_a, rtol=1e-6, atol=1e-5)
    np.testing.assert_allclose(result["b"].numpy(), expected_b, rtol=1e-6, atol=1e-5)


@settings(deadline=None)
@given(NUMBERS, NUMBERS, SENT, WEIGHTS, st.data())
def test_the_order_of_arrival_does_not_matter(
    a: Array, b: Array, sent: list[Sent], weights: Weights, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(sent))))
    straight, shuffled = (average(shared_of(a, b), sent, weights, each) for each in (None, order))
    assert all(torch.equal(straight[name], shuffled[name]) for name in straight)


@settings(deadline=None)
@given(NUMBERS, NUMBERS, SENT)
def test_entries_that_nobody_sent_stay_to_the_bit(a: Array, b: Array, sent: list[Sent]) -> None:
    result = average(shared_of(a, b), sent)
    sent_a = np.any([np.ones(SHAPE, bool) if one.mask is None else one.mask for one in sent], axis=0)
    assert np.array_equal(result["a"].numpy()[~sent_a], a[~sent_a])
    if all(one.b is None for one in sent):
        assert np.array_equal(result["b"].numpy(), b)


@settings(deadline=None)
@given(NUMBERS, st.lists(st.tuples(MASKS, COUNTS), min_size=1, max_size=9), WEIGHTS)
def test_what_nobody_changed_stays_to_the_bit(
    a: Array, clients: list[tuple["np.ndarray[tuple[int, ...], np.dtype[np.bool_]] | None", int]], weights: Weights
) -> None:
    result = average(shared_of(a, a), [Sent(a, mask, a, count, count) for mask, count in clients], weights)
    assert torch.equal(result["a"], torch.tensor(a))
    assert torch.equal(result["b"], torch.tensor(a))


@settings(deadline=None)
@given(NUMBERS, NUMBERS, COUNTS)
def test_one_client_alone_decides(a: Array, sent: Array, count: int) -> None:
    result = average(shared_of(a, a), [Sent(sent, None, sent, count, count)])
    np.testing.assert_allclose(result["a"].numpy(), sent, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize(("weights", "expected"), [("samples", 7.5), ("uniform", 5.0), ("batches", 4.0)])
def test_weights(weights: Weights, expected: float) -> None:
    updates = [
        Update(0, {"w": torch.tensor(0.0)}, samples=10, batches=3),
        Update(1, {"w": torch.tensor(10.0)}, samples=30, batches=2),
    ]
    server = averaging(weights=weights)
    state = server.aggregate({"w": torch.tensor(1.0)}, updates, Moment(), NETWORK)
    assert state["w"].item() == pytest.approx(expected)


def test_the_mean_is_taken_in_double_precision() -> None:
    """The sum 2^24 + 1 cannot be written in single precision."""
    shared = {"w": torch.tensor(0.0)}
    updates = [Update(n, {"w": torch.tensor(v)}, 1, 1) for n, v in enumerate([2.0**24, 1.0, -(2.0**24)])]
    assert pseudo_gradient(shared, updates)["w"].item() == pytest.approx(-1 / 3)


@pytest.mark.parametrize("secret", [math.nan, math.inf, -math.inf, 3.0])
def test_entries_that_were_not_sent_do_not_matter(secret: float) -> None:
    """Two clients, of which the second sends its first entry only."""
    shared = {"w": torch.tensor([0.0, 0.0])}
    updates = [
        Update(0, {"w": torch.tensor([1.0, 2.0])}, 1, 1),
        Update(1, {"w": torch.tensor([5.0, secret])}, 3, 1, mask={"w": torch.tensor([True, False])}),
    ]
    after = averaging().aggregate(averaging().init(shared, [1, 3]), updates, Moment(), NETWORK)
    assert after["w"].tolist() == [4.0, 2.0]


@pytest.mark.parametrize("mask", [[1.0, math.nan], [0.5, 1.0], [1.0, -1.0], [1, 2]], ids=str)
def test_a_mask_says_yes_or_no(mask: list[float]) -> None:
    with pytest.raises(PartitaError, match=r"client 7: the mask of 'w' .* 0 or 1"):
        Update(7, {"w": torch.zeros(2)}, 1, 1, mask={"w": torch.tensor(mask)})


def test_a_mask_has_the_shape_of_its_tensor() -> None:
    with pytest.raises(PartitaError, match=r"client 7: the mask of 'w' has the shape \[3\], the tensor \[2\]"):
        Update(7, {"w": torch.zeros(2)}, 1, 1, mask={"w": torch.ones(3)})


def test_a_mask_of_numbers_is_as_good_as_one_of_booleans() -> None:
    shared = {"w": torch.zeros(3)}
    one, other = (
        pseudo_gradient(shared, [Update(0, {"w": torch.tensor([1.0, 2.0, 3.0])}, 5, 1, mask={"w": mask})])
        for mask in (torch.tensor([True, False, True]), torch.tensor([1.0, 0.0, 1.0]))
    )
    assert torch.equal(one["w"], other["w"])
    assert one["w"].tolist() == [-1.0, 0.0, -3.0]


def test_tensors_keep_their_type() -> None:
    shared = {"single": torch.zeros(2), "double": torch.zeros(2, dtype=torch.float64)}
    server = averaging(optimizer=adam(0.1))
    update = Update(0, {name: tensor + 1 for name, tensor in shared.items()}, 1, 1)
    after = server.aggregate(server.init(shared, [1]), [update], Moment(), NETWORK)
    assert {name: after[name].dtype for name in shared} == {"single": torch.float32, "double": torch.float64}


def test_a_server_optimizer_follows_the_mean_change() -> None:
    """Momentum 0.5 and rate 0.1 on changes of -1: 0.1, then 0.15."""
    server, network = averaging(optimizer=SGD(0.1, momentum=0.5)), scalar_task(w=0.0).network
    state = server.init({"w": torch.tensor(0.0, dtype=torch.float64)}, [1])
    for expected in (0.1, 0.25):
        state = server.aggregate(state, [Update(0, {"w": state["w"] + 1}, 1, 1)], Moment(), network)
        assert state["w"].item() == pytest.approx(expected)


def test_what_is_private_never_leaves() -> None:
    shared = {"w": torch.tensor(1.0)}
    server = averaging(optimizer=adam(0.1))
    state = server.init(shared, [1, 2])
    assert under(PRIVATE, state)
    assert server.download(state, 0, Moment()) == shared
    again = server.aggregate(state, [Update(0, {"w": torch.tensor(2.0)}, 1, 1)], Moment(), NETWORK)
    assert set(again) == set(state)
    assert set(prefixed(PRIVATE, under(PRIVATE, again))) == set(state) - set(shared)


def test_a_round_without_updates_changes_nothing() -> None:
    state = averaging().init({"w": torch.tensor(0.1)}, [1])
    assert averaging().aggregate(state, [], Moment(), NETWORK) == state
