"""Ways to aggregate: each worked out by hand, and laws that hold for all of them, found by discovery."""

import inspect
import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from partita import registry
from partita.core.network import Network
from partita.core.optimizers import SGD
from partita.core.server import PRIVATE, Aggregation, Update
from partita.core.task import Task
from partita.errors import PartitaError
from partita.randomness import Moment
from partita.servers.averaging import averaging
from partita.servers.geometric_median import geometric_median
from partita.servers.median import median
from partita.servers.trimmed_mean import trimmed_mean
from partita.tensors import Tensors, under
from toys import small_network

NETWORK: Network = Task(small_network()).network
SERVERS: dict[str, Aggregation] = {
    **{name: registry.get("servers", name)() for name in registry.names("servers")},
    "trimmed_mean 0.25": trimmed_mean(fraction=0.25),
    "geometric_median uniform": geometric_median(weights="uniform", iterations=20),
    "median momentum": median(optimizer=SGD(0.5, momentum=0.9)),
    "averaging uploaded": averaging(weights="uploaded"),
}
every_server = pytest.mark.parametrize("name", SERVERS)
robust = pytest.mark.parametrize(
    "name", ["median", "trimmed_mean 0.25", "geometric_median", "geometric_median uniform"]
)


def update(client: int, values: object, mask: object = None, samples: int = 1) -> Update:
    """One tensor `w` of float64, with a weight of its own."""
    given = {"w": torch.tensor(values, dtype=torch.float64)}
    return Update(client, given, samples, 1, None if mask is None else {"w": torch.tensor(mask)}, weight=float(samples))


def after(server: Aggregation, old: Tensors, *updates: Update) -> Tensors:
    return server.aggregate(server.init(old, [1] * 9), updates, Moment(), NETWORK)


def numbers(*values: float) -> Tensors:
    return {"w": torch.tensor(values, dtype=torch.float64)}


# By hand


@pytest.mark.parametrize(("weights", "expected"), [("samples", 4.0), ("uniform", 3.0), ("batches", 3.0)])
def test_averaging_by_hand(weights: str, expected: float) -> None:
    """(1 * 10 + 5 * 30) / 40, or (1 + 5) / 2."""
    server = averaging(weights=weights)  # type: ignore[arg-type]
    assert after(server, numbers(0), update(0, [1], samples=10), update(1, [5], samples=30))["w"].item() == expected


def test_uploaded_weights_by_hand() -> None:
    """(1 * 0.25 + 5 * 0.75) / 1, whatever the numbers of samples."""
    updates = [replace(update(client, [value]), weight=w) for client, value, w in ((0, 1, 0.25), (1, 5, 0.75))]
    assert after(averaging(weights="uploaded"), numbers(0), *updates)["w"].item() == 4.0


def test_uploaded_weights_must_be_uploaded() -> None:
    with pytest.raises(PartitaError, match=r"client 3 has no weight.*Set weights to 'samples'"):
        after(averaging(weights="uploaded"), numbers(0), replace(update(3, [1.0]), weight=None))


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_a_weight_is_a_number_of_at_least_zero(weight: float) -> None:
    with pytest.raises(PartitaError, match=r"client 3: Update: weight is .*, but must be at least 0"):
        replace(update(3, [1.0]), weight=weight)


def test_median_by_hand() -> None:
    """Of 1, 2 and 100 it is 2; of 1, 2, 4 and 100 it is 3; of what one client sent, that; of nothing, the old value."""
    three = [update(client, [value]) for client, value in enumerate((100, 1, 2))]
    assert after(median(), numbers(7), *three)["w"].item() == 2
    assert after(median(), numbers(7), *three, update(3, [4]))["w"].item() == 3
    masked = [
        update(0, [1, 1, 1, 1], [True, True, True, False]),
        update(1, [3, 3, 3, 3], [True, True, False, False]),
        update(2, [8, 8, 8, 8], [True, False, False, False]),
    ]
    assert after(median(), numbers(9, 9, 9, 9), *masked)["w"].tolist() == [3, 2, 1, 9]


def test_trimmed_mean_by_hand() -> None:
    """A quarter of 4 is one at each end: (2 + 4) / 2; of 3 it is none: (1 + 2 + 6) / 3; a third of 3: the middle."""
    values = [update(client, [value]) for client, value in enumerate((100, 1, 2, 4))]
    assert after(trimmed_mean(fraction=0.25), numbers(0), *values)["w"].item() == 3
    three = [update(client, [value]) for client, value in enumerate((6, 1, 2))]
    assert after(trimmed_mean(fraction=0.25), numbers(0), *three)["w"].item() == 3
    assert after(trimmed_mean(fraction=1 / 3), numbers(0), *three)["w"].item() == 2
    assert after(trimmed_mean(fraction=0.0), numbers(0), *three)["w"].item() == 3


def test_trimmed_mean_counts_those_who_sent_an_entry() -> None:
    """The second entry has 3 senders of 4, of which a quarter is none: (1 + 2 + 3) / 3."""
    updates = [update(client, [value] * 2, [True, value < 9]) for client, value in enumerate((9, 1, 2, 3))]
    assert after(trimmed_mean(fraction=0.25), numbers(0, 0), *updates)["w"].tolist() == [2.5, 2.0]


def test_geometric_median_by_hand() -> None:
    """One step from the mean 4 of 0, 0 and 12: weights 1/4, 1/4 and 1/8, so 12 * (1/8) / (5/8)."""
    updates = [update(client, [value]) for client, value in enumerate((0, 0, 12))]
    assert after(geometric_median(iterations=1), numbers(0), *updates)["w"].item() == pytest.approx(2.4)


def test_geometric_median_of_a_triangle() -> None:
    """Where all angles are 120 degrees: of an equilateral triangle its centre, in one dimension the median."""
    corners = [(0.0, 0.0), (2.0, 0.0), (1.0, math.sqrt(3))]
    server = geometric_median(iterations=50)
    found = after(server, numbers(5, 5), *(update(c, list(corner)) for c, corner in enumerate(corners)))["w"]
    assert found.tolist() == pytest.approx([1, 1 / math.sqrt(3)])
    line = [update(client, [value]) for client, value in enumerate((1.0, 2.0, 50.0))]
    assert after(geometric_median(iterations=500), numbers(0), *line)["w"].item() == pytest.approx(2, abs=1e-3)


def test_running_statistics_have_no_say_in_the_distance() -> None:
    old = {"layer1.bias": torch.zeros(1), "norm1.running_var": torch.zeros(1)}
    sent = [
        Update(client, {"layer1.bias": torch.tensor([value]), "norm1.running_var": torch.tensor([variance])}, 1, 1)
        for client, value, variance in ((0, 0.0, 1e6), (1, 0.0, 0.0), (2, 12.0, 0.0))
    ]
    assert after(geometric_median(iterations=1), old, *sent)["layer1.bias"].item() == pytest.approx(2.4)


# Laws

ENTRIES = 4
CHANGES = st.lists(
    st.tuples(
        st.lists(st.floats(-10, 10), min_size=ENTRIES, max_size=ENTRIES),
        st.none() | st.lists(st.booleans(), min_size=ENTRIES, max_size=ENTRIES),
        st.integers(1, 50),
    ),
    min_size=1,
    max_size=6,
)
Sent = list[tuple[list[float], list[bool] | None, int]]
OLD = numbers(1.0, -2.0, 0.5, 3.0)


def updates_of(sent: Sent) -> list[Update]:
    return [update(client, values, mask, samples) for client, (values, mask, samples) in enumerate(sent)]


@every_server
@given(CHANGES, st.data())
def test_the_order_of_arrival_does_not_matter(name: str, sent: Sent, data: st.DataObject) -> None:
    updates = updates_of(sent)
    shuffled = data.draw(st.permutations(updates))
    one, other = after(SERVERS[name], OLD, *updates), after(SERVERS[name], OLD, *shuffled)
    assert list(one) == list(other)
    assert all(torch.equal(one[each], other[each]) for each in one)


@every_server
@given(CHANGES, st.sampled_from([math.nan, math.inf, -math.inf, 1e300]))
def test_what_was_not_sent_does_not_matter(name: str, sent: Sent, secret: float) -> None:
    hidden: Sent = [
        (values if mask is None else [v if m else secret for v, m in zip(values, mask, strict=True)], mask, samples)
        for values, mask, samples in sent
    ]
    one, other = (after(SERVERS[name], OLD, *updates_of(each))["w"] for each in (sent, hidden))
    assert torch.equal(one, other)
    nobody = ~torch.tensor([[True] * ENTRIES if mask is None else mask for _, mask, _ in sent]).any(0)
    assert torch.equal(one[nobody], OLD["w"][nobody])


@every_server
@given(CHANGES)
def test_what_nobody_changed_stays_to_the_bit(name: str, sent: Sent) -> None:
    unchanged: Sent = [(OLD["w"].tolist(), mask, samples) for _, mask, samples in sent]
    assert torch.equal(after(SERVERS[name], OLD, *updates_of(unchanged))["w"], OLD["w"])


@pytest.mark.parametrize("name", [name for name in SERVERS if "momentum" not in name])
@given(CHANGES)
def test_those_who_agree_are_followed(name: str, sent: Sent) -> None:
    agreed: Sent = [(sent[0][0], mask, samples) for _, mask, samples in sent]
    found = after(SERVERS[name], OLD, *updates_of(agreed))["w"]
    anybody = torch.tensor([[True] * ENTRIES if mask is None else mask for _, mask, _ in sent]).any(0)
    expected = torch.where(anybody, torch.tensor(sent[0][0], dtype=torch.float64), OLD["w"])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@every_server
def test_tensors_that_nobody_sent_stay(name: str) -> None:
    old = {"w": torch.zeros(2), "other": torch.tensor([3.0])}
    found = after(SERVERS[name], old, Update(0, {"w": torch.ones(2)}, 1, 1, weight=1.0))
    assert torch.equal(found["other"], old["other"])
    assert not torch.equal(found["w"], old["w"])
    assert found["w"].dtype == torch.float32


@every_server
def test_tensors_of_every_shape(name: str) -> None:
    for shape in ((), (1,), (0,), (2, 3, 4)):
        old = {"w": torch.zeros(shape, dtype=torch.float64)}
        sent = [Update(at, {"w": torch.full(shape, float(at)).double()}, 1, 1, weight=1.0) for at in range(3)]
        assert after(SERVERS[name], old, *sent)["w"].shape == shape


@every_server
def test_large_tensors_are_as_small_ones(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are worked on in parts."""
    draw = torch.Generator().manual_seed(0)
    values = torch.randn(5, 103, generator=draw, dtype=torch.float64)
    masks = torch.rand(5, 103, generator=draw) < 0.7
    old = {"w": torch.zeros(103, dtype=torch.float64)}
    sent = [Update(at, {"w": values[at]}, at + 1, 1, {"w": masks[at]}, weight=1.0) for at in range(5)]
    whole = after(SERVERS[name], old, *sent)["w"]
    monkeypatch.setattr("partita.servers._entries.AT_ONCE", 35)
    monkeypatch.setattr("partita.core.server.PART", 7)
    torch.testing.assert_close(after(SERVERS[name], old, *sent)["w"], whole, rtol=0, atol=1e-12)


@every_server
def test_a_round_without_updates_changes_nothing(name: str) -> None:
    state = SERVERS[name].init(OLD, [1])
    found = SERVERS[name].aggregate(state, [], Moment(), NETWORK)
    assert all(torch.equal(found[each], state[each]) for each in state)


@every_server
def test_what_is_private_never_leaves(name: str) -> None:
    state = after(SERVERS[name], OLD, update(0, [1.0] * ENTRIES))
    assert set(SERVERS[name].download(state, 0, Moment())) == {"w"}
    assert all(each.startswith(PRIVATE) for each in set(state) - {"w"})
    assert bool(under(PRIVATE, state)) == ("momentum" in name)


@every_server
def test_what_sees_no_single_models_sees_only_their_sum(name: str) -> None:
    """Secure aggregation hands out sums: a server that claims to need no more gives the same for the same sum."""
    moved = torch.tensor([2.0, -1.0, 0.5, 8.0], dtype=torch.float64)
    values = list(torch.arange(48, dtype=torch.float64).reshape(12, ENTRIES).sin())

    def outcome(given: list[Tensor]) -> Tensor:
        return after(SERVERS[name], OLD, *(Update(at, {"w": v}, 3, 1, weight=3.0) for at, v in enumerate(given)))["w"]

    one, other = outcome(values), outcome([values[0] + moved, values[1] - moved, *values[2:]])
    assert torch.allclose(one, other, rtol=0, atol=1e-9) != SERVERS[name].sees_single_models


@robust
@pytest.mark.parametrize("bad", [1e12, -1e12, math.inf, math.nan])
def test_one_of_five_cannot_move_the_rest(name: str, bad: float) -> None:
    honest = [[1.0, -1.0], [1.1, -0.9], [0.9, -1.2], [1.05, -1.0]]
    updates = [update(client, values) for client, values in enumerate(honest)]
    server = replace(SERVERS[name], rule=geometric_median(iterations=50).rule) if "geometric" in name else SERVERS[name]
    found = after(server, numbers(0, 0), *updates, update(4, [bad, bad]))["w"]
    assert torch.isfinite(found).all()
    assert (found - torch.tensor([1.0, -1.0], dtype=torch.float64)).abs().max() < 0.5
    if not math.isnan(bad):
        moved = after(averaging(), numbers(0, 0), *updates, update(4, [bad, bad]))["w"]
        assert not (moved.abs() < 1e6).all(), "the average is moved"


@pytest.mark.parametrize("name", registry.names("servers"))
def test_file_function_and_name_agree(name: str) -> None:
    function = registry.get("servers", name)
    made = function()
    assert made.name == function.__name__ == name
    parameters = inspect.signature(function).parameters
    assert made.settings == {each: parameter.default for each, parameter in parameters.items()}
    assert all(each.kind is each.KEYWORD_ONLY and each.default is not each.empty for each in parameters.values())
    assert registry.summary(function).endswith(".")
