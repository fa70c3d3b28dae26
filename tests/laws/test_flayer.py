"""FLAYER's switches for what its published code does beyond the paper."""

from dataclasses import replace
from fractions import Fraction as Exactly
from typing import Literal

import pytest
import torch

from partita.algorithms._layerwise import official_factors
from partita.algorithms._masks import count_of
from partita.algorithms.fedavg import fedavg
from partita.algorithms.flayer import ACCURACY, flayer
from partita.core.batching import Batching
from partita.core.client import Client
from partita.core.optimizers import SGD
from partita.core.selectors import last_blocks
from partita.errors import PartitaError
from partita.experiment.result import Result
from partita.experiment.samplers import Fraction
from partita.experiment.simulate import simulate
from partita.randomness import Moment
from partita.tensors import Tensors
from toys import small_federation, small_network

BASE = fedavg(optimizer=SGD(0.1))


def run(*, participation: float = 0.5, rounds: int = 3, **settings: object) -> Result:
    algorithm = flayer(on=BASE, variant="official", **settings)  # type: ignore[arg-type]
    return simulate(
        algorithm, small_network(norm=False), small_federation(), rounds=rounds, participation=participation,
        batching=Batching(4),
    )  # fmt: skip


def same(one: Tensors, other: Tensors) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_everyone_initialises_though_not_everyone_takes_part() -> None:
    """After one round only participants keep a head; with `everyone` all do, and the others' is the warmed-up one."""
    some, everyone = run(rounds=1), run(rounds=1, everyone=True)
    chosen = set(Fraction(0.5)(4, Moment(0, 1, 0)))
    assert set(some.own) == chosen
    assert set(everyone.own) == {0, 1, 2, 3}
    for client in chosen:
        assert same(some.own[client], everyone.own[client])
    assert same(some.state, everyone.state), "nothing of the others is sent"
    for client in set(everyone.own) - chosen:
        assert not torch.equal(everyone.own[client]["head.weight"], everyone.task.weights["head.weight"])
        assert 0 <= float(everyone.own[client][ACCURACY]) <= 1


def test_with_full_participation_everyone_is_no_difference() -> None:
    one, other = run(participation=1.0), run(participation=1.0, everyone=True)
    assert same(one.state, other.state)
    assert all(same(one.own[client], other.own[client]) for client in one.own)


def test_the_first_head_epoch_has_a_rate_of_its_own() -> None:
    """A rate equal to the later one changes nothing, another one does."""
    plain, equal, slower = run(), run(first_head_rate=0.2), run(first_head_rate=0.1)
    assert same(plain.state, equal.state)
    assert not same(plain.state, slower.state)


def test_middle_layers_may_have_rates_of_their_own() -> None:
    network = simulate(BASE, small_network(norm=False), small_federation(), rounds=1).task.network
    gradients = {name: torch.ones(3, dtype=torch.float64) for name in network.parameters}
    alike, own = (official_factors(middle, 0.2)(gradients, network) for middle in (2.0, (2.0,)))
    assert alike == own
    assert official_factors((6.0,), 0.2)(gradients, network)["layer2.weight"] == pytest.approx(3 * own["layer2.weight"])
    with pytest.raises(PartitaError, match="middle_rate has 2 rates for 1 middle layers"):
        official_factors((1.0, 2.0), 0.2)(gradients, network)


def test_the_number_of_sent_entries_is_exact() -> None:
    """In floating point 7/25 of 50 million is above 14 million, and rounded up one too many."""
    assert 7 / 25 * 50_000_000 > 14_000_000
    assert count_of(50_000_000, Exactly(7, 25)) == 14_000_000
    assert count_of(7, Exactly(1, 4)) == 2, "1.75 is rounded up"
    assert count_of(3, Exactly(1, 10)) == 1


@pytest.mark.parametrize("buffers", ["local", "follow"])
def test_statistics_of_a_norm_in_the_head_are_blended_if_they_travel(
    buffers: Literal["local", "follow"],
) -> None:
    """Weights of the head are A own + (1 - A) received; running statistics too, or else the client's own to the bit."""
    method = flayer(on=BASE, head=last_blocks(3))
    begun: list[tuple[Client, Tensors]] = []

    def watched(tensors: Tensors, client: Client) -> Tensors:
        begun.append((client, method.start(tensors, client)))
        return begun[-1][1]

    result = simulate(
        replace(method, start=watched), small_network(), small_federation(), rounds=3, participation=0.5,
        batching=Batching(4), buffers=buffers, on="inline",
    )  # fmt: skip
    statistics = {"norm1.running_mean", "norm1.running_var"}
    assert statistics <= set(result.own[0]), "kept with the head"
    assert statistics.isdisjoint(result.state) == (buffers == "local")
    again = [(client, tensors) for client, tensors in begun if client.own]
    assert any(0 < float(client.own[ACCURACY]) < 1 for client, _ in again)
    for client, tensors in again:
        trust = float(client.own[ACCURACY])
        for name in statistics | {"norm1.weight", "layer2.weight", "head.weight"}:
            own = client.own[name]
            sent = client.received.get(name)
            expected = own if sent is None else trust * own + (1 - trust) * sent
            torch.testing.assert_close(tensors[name], expected, rtol=0, atol=0 if sent is None else 1e-14)
    moved = [(client.own[name], client.received.get(name)) for client, _ in again for name in statistics]
    assert all(sent is None or not torch.equal(own, sent) for own, sent in moved), "blending makes a difference"
