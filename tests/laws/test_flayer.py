"""FLAYER's switches for what its published code does beyond the paper."""

import pytest
import torch

from partita.algorithms._layerwise import official_factors
from partita.algorithms.fedavg import fedavg
from partita.algorithms.flayer import ACCURACY, flayer
from partita.core.batching import Batching
from partita.core.optimizers import SGD
from partita.errors import PartitaError
from partita.randomness import Moment
from partita.simulation.result import Result
from partita.simulation.samplers import Fraction
from partita.simulation.simulate import simulate
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
    with pytest.raises(PartitaError, match="2 rates for 1 middle layers"):
        official_factors((1.0, 2.0), 0.2)(gradients, network)
