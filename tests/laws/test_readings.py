"""Does the engine do what each reading says? Server, clients and every client's test loss, against `readings.py`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest
import torch

from laws import readings
from laws.readings import BATCH, DATA, PARTICIPATION, RATE, ROUNDS, SEED, State, World, samples, uniform
from partita.algorithms.fedavg import fedavg
from partita.algorithms.flayer import flayer
from partita.algorithms.lg_fedavg import lg_fedavg
from partita.algorithms.per_fedavg import per_fedavg
from partita.algorithms.scaffold import scaffold
from partita.core.algorithm import Algorithm, with_server
from partita.core.batching import Batching
from partita.core.optimizers import SGD, Optimizer, adagrad, adam, yogi
from partita.core.selectors import last_blocks
from partita.experiment.simulate import simulate
from partita.servers.averaging import averaging
from toys import small_network

PLAIN = SGD(RATE)
LAYERWISE = partial(flayer, on=fedavg(optimizer=PLAIN))


def following(optimizer: Optimizer) -> Algorithm:
    """FedAvg whose server follows the mean change with an optimizer."""
    return with_server(fedavg(optimizer=PLAIN), averaging(optimizer=optimizer))


@dataclass(frozen=True)
class Reading:
    """A method with its settings, and the same in plain torch."""

    algorithm: Algorithm
    oracle: Callable[[World], None]
    norm: bool = False
    rounds: int = ROUNDS


# Units that nobody sends hold zeros after a diluted round, in double precision up to rounding: from then on rounding
# decides whether they are active.
DILUTED = 1
READINGS = {
    "lg_fedavg": Reading(lg_fedavg(optimizer=PLAIN), readings.lg_fedavg, norm=True),
    "lg_fedavg uniform": Reading(
        with_server(lg_fedavg(optimizer=PLAIN), averaging(weights="uniform")),
        partial(readings.lg_fedavg, weights=uniform),
    ),
    "lg_fedavg 2": Reading(
        lg_fedavg(blocks=2, optimizer=PLAIN), partial(readings.lg_fedavg, shared=("layer2.", "head."))
    ),
    "flayer": Reading(LAYERWISE(), readings.flayer, norm=True),
    "flayer 2": Reading(LAYERWISE(head=last_blocks(2)), partial(readings.flayer, s=2)),
    "flayer 3": Reading(LAYERWISE(head=last_blocks(3)), partial(readings.flayer, s=3), norm=True),
    "flayer blend": Reading(LAYERWISE(lr=False, mask=False), partial(readings.flayer, rates=False, mask=False)),
    "flayer rates": Reading(LAYERWISE(agg="none", mask=False), partial(readings.flayer, blend=False, mask=False)),
    "flayer mask": Reading(LAYERWISE(agg="none", lr=False), partial(readings.flayer, blend=False, rates=False)),
    "flayer received": Reading(LAYERWISE(agg="received"), partial(readings.flayer, blend=False)),
    "flayer joint": Reading(LAYERWISE(joint_mask=True), partial(readings.flayer, joint=True), norm=True),
    "flayer dilute": Reading(LAYERWISE(dilute=True), partial(readings.flayer, dilute=True), rounds=DILUTED),
    "flayer 2 dilute joint": Reading(
        LAYERWISE(head=last_blocks(2), dilute=True, joint_mask=True),
        partial(readings.flayer, s=2, dilute=True, joint=True),
        rounds=DILUTED,
    ),
    "per_fedavg hessian-free": Reading(
        per_fedavg(alpha=0.05, delta=1e-3, optimizer=PLAIN), readings.per_fedavg_hessian_free
    ),
    "fedadam": Reading(
        following(adam(0.05, beta2=0.99, epsilon=1e-3, bias_correction=False, second_moment=1e-6)),
        partial(readings.reddi_adaptive, rule="adam"),
    ),
    "fedyogi": Reading(following(yogi(0.05, second_moment=1e-6)), partial(readings.reddi_adaptive, rule="yogi")),
    "fedadagrad": Reading(
        following(adagrad(0.05, beta1=0.9, second_moment=1e-6)), partial(readings.reddi_adaptive, rule="adagrad")
    ),
    "scaffold": Reading(scaffold(optimizer=PLAIN), partial(readings.scaffold, weights=uniform)),
    "scaffold samples": Reading(
        scaffold(optimizer=PLAIN, weights="samples", server_lr=0.7),
        partial(readings.scaffold, weights=samples, server_rate=0.7),
    ),
}


@pytest.mark.parametrize("name", READINGS)
def test_the_engine_does_what_the_reading_says(name: str) -> None:
    """The server's state, what clients keep, and the loss of every client's model, also of those who were absent."""
    reading = READINGS[name]
    result = simulate(
        reading.algorithm, small_network(reading.norm), DATA, seed=SEED, participation=PARTICIPATION,
        rounds=reading.rounds, batching=Batching(BATCH), evaluate_every=1, on="inline",
    )  # fmt: skip
    world = World(reading.norm, reading.rounds)
    reading.oracle(world)
    assert_same({n: t for n, t in result.state.items() if not n.startswith("server/")}, world.server)
    assert result.own.keys() == {client for number in range(world.rounds) for client in world.participants(number)}
    for client, own in result.own.items():
        assert_same(readings.copied(own), world.own.get(client, {}))
    for number, losses in enumerate(world.losses, start=1):
        records = result.select(round=number, variant="before_local", role="test")
        assert [record.client for record in records] == list(range(len(DATA)))
        assert [record.loss / record.count for record in records] == pytest.approx(losses, abs=1e-10)


def assert_same(one: State, other: State) -> None:
    torch.testing.assert_close(one, other, rtol=0, atol=1e-10)
