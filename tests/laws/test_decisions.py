"""What is decided while a method runs: which part is personal, and what a client counts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from typing_extensions import Unpack

from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedper import fedper
from partita.core.algorithm import Algorithm, with_server
from partita.core.batching import Batching
from partita.core.client import Client
from partita.core.network import Network
from partita.core.optimizers import SGD
from partita.core.phases import Phase
from partita.core.samples import Samples
from partita.core.selectors import DECIDED, NETWORK
from partita.core.server import Update
from partita.data.federation import Federation
from partita.data.split import Role
from partita.errors import PartitaError
from partita.experiment.executors.inline import inline
from partita.experiment.experiment import Options
from partita.experiment.result import Result
from partita.experiment.rounds import Checkpoint, rounds as rounds_of
from partita.experiment.settings.describe import describe
from partita.experiment.setup import Setup
from partita.experiment.simulate import experiment_of, simulate
from partita.randomness import Moment
from partita.servers.averaging import averaging
from partita.servers.median import median
from partita.tensors import Tensors
from toys import Scalars, half_squared_error, repeated, small_federation, small_network, squared_error_measure

DATA = small_federation((12, 7, 20, 9))
SEED = 3


def most_disagreeing(state: Tensors, updates: Sequence[Update], moment: Moment, network: Network) -> list[str] | None:
    """After the first round, once and for all: the layer whose updates differ most from their mean."""
    if moment.round:
        return None

    def disagreement(unit: Sequence[str]) -> float:
        total = 0.0
        for name in unit:
            if name in updates[0].values and name not in network.buffers:
                changes = torch.stack([update.values[name] - state[name] for update in updates])
                total += float((changes - changes.mean(0)).square().sum())
        return total

    unit: Sequence[str] = max(network.units, key=disagreement)
    return list(unit)


PERSONAL_LAYER = replace(fedavg(), shared=NETWORK & ~DECIDED, decide=most_disagreeing)
"""FedAvg in the first round, then what FedPer does, with the layer that turned out to be personal."""


OPTIONS: Options = {"rounds": 3, "seed": SEED, "participation": 0.5, "batching": Batching(4)}


def run(algorithm: Algorithm, rounds: int = 3, on: str = "inline") -> Result:
    options: Options = {**OPTIONS, "rounds": rounds}
    return simulate(algorithm, small_network(), DATA, on=on, **options)


def resumed(
    algorithm: Algorithm, start: Tensors, own: Mapping[int, Tensors], **options: Unpack[Options]
) -> tuple[Tensors, dict[int, Tensors]]:
    """The server's and the clients' states after rounds 2 and 3, from those after round 1."""
    experiment = experiment_of(algorithm, small_network(), DATA, {**OPTIONS, **options})
    setup, states = Setup.of(experiment, experiment.stages[0], experiment.weights), dict(own)
    *_, last = rounds_of(setup, inline(), states, Checkpoint(1, start))
    return last.state, states


def decided(result: Result) -> set[str]:
    return {name.removeprefix("decided/") for name in result.state if name.startswith("decided/")}


def same(one: Tensors, other: Tensors) -> bool:
    return list(one) == list(other) and all(torch.equal(one[name], other[name]) for name in one)


def test_the_choice_is_made_after_the_first_round_and_stays() -> None:
    first, third = run(PERSONAL_LAYER, rounds=1), run(PERSONAL_LAYER)
    assert decided(first) == decided(third)
    assert decided(first) in [set(unit) for unit in third.task.network.units]
    assert all(not own for own in first.own.values()), "before the choice nothing is personal"
    chosen = {client for number in (1, 2) for client in third.setup.participants(third.setup.moment(number))}
    assert {client for client, own in third.own.items() if own} == chosen
    assert all(set(third.own[client]) == decided(third) for client in chosen)


def test_what_was_decided_to_be_personal_is_not_sent_any_more() -> None:
    first, third = run(PERSONAL_LAYER, rounds=1), run(PERSONAL_LAYER)
    for name in decided(first):
        assert torch.equal(first.state[name], third.state[name]), "the server's own copy is that of the first round"
    others = set(first.task.network.parameters) - decided(first) - {"layer1.bias"}
    assert all(not torch.equal(first.state[name], third.state[name]) for name in others)


def test_the_rest_is_what_fedper_does_from_there() -> None:
    """Where the head is decided on, rounds 2 and 3 are FedPer's from the weights of round 1."""

    def head(state: Tensors, updates: Sequence[Update], moment: Moment, network: Network) -> list[str] | None:
        return list(network.groups["head"])

    method = replace(PERSONAL_LAYER, decide=head)
    first, third = run(method, rounds=1), run(method)
    assert decided(third) == {"head.weight", "head.bias"}
    shared = {name: tensor for name, tensor in first.state.items() if "head" not in name}
    weights = first.task.weights | {n: t for n, t in first.state.items() if not n.startswith("decided/")}
    state, own = resumed(fedper(epochs=1, optimizer=SGD(0.1)), shared, {}, weights=weights)
    assert all(torch.equal(state[name], third.state[name]) for name in state)
    assert all(same(own[client], third.own[client]) for client in own)


def test_the_choice_survives_an_interruption_and_travels_to_workers() -> None:
    first, whole, apart = run(PERSONAL_LAYER, rounds=1), run(PERSONAL_LAYER), run(PERSONAL_LAYER, on="processes:2")
    for state, own in (resumed(PERSONAL_LAYER, first.state, first.own), (apart.state, apart.own)):
        assert same(whole.state, state)
        assert all(same(whole.own[client], own[client]) for client in whole.own)


def test_the_choice_may_change_every_round() -> None:
    def in_turn(state: Tensors, updates: Sequence[Update], moment: Moment, network: Network) -> Sequence[str]:
        return network.units[moment.round]

    method = replace(PERSONAL_LAYER, decide=in_turn)
    for rounds in (1, 2, 3):
        result = run(method, rounds=rounds)
        assert decided(result) == set(result.task.network.units[rounds - 1])


def test_a_phase_may_train_what_was_decided() -> None:
    """The first round trains nothing of it, the second does."""
    method = replace(PERSONAL_LAYER, phases=(Phase(NETWORK & ~DECIDED, SGD(0.1)), Phase(DECIDED, SGD(0.1))))
    assert decided(run(method))


def test_the_choice_goes_with_any_server_and_looks_at_single_models() -> None:
    assert decided(run(with_server(PERSONAL_LAYER, median())))
    assert PERSONAL_LAYER.sees_single_models
    assert not fedavg().sees_single_models
    assert describe(PERSONAL_LAYER, run(PERSONAL_LAYER, rounds=1).task).sees_single_models


def test_a_choice_of_what_is_not_there_is_refused() -> None:
    with pytest.raises(PartitaError, match="decides on 'nothing', which is no tensor of the network"):
        run(replace(PERSONAL_LAYER, decide=lambda *_: ["nothing"]))


def loss_before(before: Tensors, after: Tensors, client: Client) -> float:
    """A client counts by how little it knew."""
    with torch.no_grad():
        client.task.evaluate_()
        outputs = client.task.outputs(before, client.train.inputs)
        return float(client.task.loss(outputs, client.train.targets))


def test_clients_may_upload_what_they_count() -> None:
    """From w = 0 with rate 0.5, targets 2 and 4: steps to 1 and 2, losses 2 and 8, so (1 * 2 + 2 * 8) / 10."""
    samples = Samples(repeated(0.0, 4).inputs, torch.tensor([2.0, 4.0, 2.0, 4.0], dtype=torch.float64))
    none = torch.tensor([], dtype=torch.int64)
    roles: list[dict[Role, Tensor]] = [
        {"train": torch.tensor([at]), "validation": none, "test": torch.tensor([at + 2])} for at in (0, 1)
    ]
    data = Federation(samples, roles, classes=1, name="two")
    method = replace(fedavg(optimizer=SGD(0.5)), weight=loss_before, server=averaging(weights="uploaded"))
    result = simulate(
        method,
        Scalars(w=0.0),
        data,
        rounds=1,
        batching=Batching(1),
        loss=half_squared_error,
        measure=squared_error_measure,
    )
    assert result.state["w"].item() == pytest.approx(1.8)


def test_uploaded_weights_need_a_method_that_computes_them() -> None:
    with pytest.raises(PartitaError, match=r"has no weight, because the algorithm computes none \(Algorithm.weight\)"):
        run(with_server(fedavg(), averaging(weights="uploaded")))
