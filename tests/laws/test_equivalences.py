"""Methods that must coincide at special settings, with the same seed, the same batches and plain SGD.

One file, since every test compares two methods by the same few assertions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from partita import registry
from partita.algorithms.apple import apple
from partita.algorithms.ditto import ditto
from partita.algorithms.fedala import fedala
from partita.algorithms.fedalt import fedalt
from partita.algorithms.fedamp import fedamp
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedbabu import fedbabu
from partita.algorithms.fedper import fedper
from partita.algorithms.fedprox import fedprox
from partita.algorithms.fedrep import fedrep
from partita.algorithms.fedsim import fedsim
from partita.algorithms.flayer import flayer
from partita.algorithms.lg_fedavg import lg_fedavg
from partita.algorithms.local import local
from partita.algorithms.per_fedavg import per_fedavg
from partita.core.algorithm import Algorithm, Trained, client_round, server_round
from partita.core.batching import Batching
from partita.core.client import Client
from partita.core.gradients import GradientAt
from partita.core.network import Network
from partita.core.optimizers import SGD
from partita.core.phases import Phase
from partita.core.samples import Samples
from partita.core.selectors import HEAD, NETWORK, NOTHING, last_blocks
from partita.core.server import Update
from partita.engine.reference import run_phase
from partita.errors import DegenerateWarning
from partita.evaluation.variants import Variant
from partita.experiment.result import Result
from partita.experiment.samplers import Fraction
from partita.experiment.simulate import simulate
from partita.randomness import Moment
from partita.servers.averaging import averaging
from partita.tensors import Tensors, only, under
from toys import small_federation, small_network

SIZES = (12, 7, 20, 9)
BATCHING = Batching(size=4)
PLAIN_SGD = SGD(0.1)
SEED = 1
BODY_NAMES = ("layer1.weight", "layer1.bias", "layer2.weight", "layer2.bias")
HEAD_NAMES = ("head.weight", "head.bias")
ALL_NAMES = BODY_NAMES + HEAD_NAMES
ROLES: tuple[Literal["validation", "test"], ...] = ("validation", "test")
METHODS = registry.names("algorithms")


def run(
    algorithm: Algorithm,
    *,
    participation: float = 0.5,
    rounds: int = 3,
    sizes: Sequence[int] = SIZES,
    module: nn.Module | None = None,
) -> Result:
    """By default two of four clients in a round: after three rounds one began late, and one never took part."""
    return simulate(
        algorithm,
        module or small_network(norm=False),
        small_federation(sizes),
        rounds=rounds,
        seed=SEED,
        participation=participation,
        batching=BATCHING,
        evaluate_every=1,
    )


def run_degenerate(algorithm: Algorithm) -> Result:
    """A method whose personal part is nothing or everything, which it says."""
    with pytest.warns(DegenerateWarning, match="personal"):
        return run(algorithm)


@cache
def run_fedavg() -> Result:
    return run(fedavg(epochs=2, optimizer=PLAIN_SGD))


@cache
def run_local() -> Result:
    return run(local(epochs=2, optimizer=PLAIN_SGD))


def assert_close(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    assert set(one) == set(other)
    for name in one:
        difference = (one[name] - other[name]).abs().max().item()
        assert difference <= 1e-12, f"{name} differs by {difference:.2g}"


def assert_equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    assert set(one) == set(other)
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


def assert_moved(tensors: Mapping[str, Tensor], initial: Mapping[str, Tensor], names: Sequence[str]) -> None:
    """So that two methods do not agree because neither learns."""
    assert names
    assert [name for name in names if (tensors[name] - initial[name]).abs().max() < 1e-4] == []


def assert_same_server(one: Result, other: Result, names: Sequence[str] = ALL_NAMES) -> None:
    """The named tensors of the servers are the same, and were learned."""
    assert_close(only(one.state, names), only(other.state, names))
    assert_moved(one.state, one.task.weights, names)


def assert_same_clients(one: Result, other: Result, names: Sequence[str] = ALL_NAMES, prefix: str = "") -> None:
    """The same clients keep the same named tensors (of the first below a prefix), and learned them."""
    assert set(one.own) == set(other.own)
    for number, own in other.own.items():
        mine = under(prefix, one.own[number])
        assert_close(only(mine, names), only(own, names))
        assert_moved(mine, one.task.weights, names)


def assert_same_records(one: Result, other: Result, one_model: Variant, other_model: Variant | None = None) -> None:
    """Every client measures the same after every round, on validation and on test data."""
    for number in range(1, one.rounds + 1):
        for role in ROLES:
            mine = one.select(one_model, round=number, role=role)
            theirs = other.select(other_model or one_model, round=number, role=role)
            assert [(r.client, r.count, r.correct) for r in mine] == [(r.client, r.count, r.correct) for r in theirs]
            assert [r.loss for r in mine] == pytest.approx([r.loss for r in theirs], abs=1e-11)


def test_the_set_up_has_early_late_and_absent_clients() -> None:
    """Else the comparisons below would see less than they say."""
    chosen = [set(Fraction(0.5)(4, Moment(number, 3, SEED))) for number in range(3)]
    assert (chosen[1] | chosen[2]) - chosen[0]
    assert set(range(4)) - (chosen[0] | chosen[1] | chosen[2])
    assert chosen[0] & (chosen[1] | chosen[2])


def test_e01_fedper_with_nothing_personal_is_fedavg() -> None:
    one, other = run_degenerate(fedper(blocks=0, epochs=2, optimizer=PLAIN_SGD)), run_fedavg()
    assert_equal(one.state, other.state)
    assert_same_server(one, other)
    assert_same_records(one, other, "before_local")
    assert_same_records(one, other, "after_local")
    assert all(not own for own in one.own.values())


def test_e02_fedper_with_everything_personal_is_local() -> None:
    one, other = run_degenerate(fedper(blocks=3, epochs=2, optimizer=PLAIN_SGD)), run_local()
    assert one.state == other.state == {}
    assert_same_clients(one, other)
    assert_same_records(one, other, "before_local")
    assert_same_records(one, other, "after_local")


def test_e03_fedsim_with_nothing_personal_is_fedavg() -> None:
    algorithm = replace(fedsim(personal=NOTHING, epochs=2, optimizer=PLAIN_SGD), server=averaging(optimizer=SGD(1.0)))
    one, other = run_degenerate(algorithm), run_fedavg()
    assert_equal(one.state, other.state)
    assert_same_server(one, other)
    assert_same_records(one, other, "before_local")


def test_e03_fedsim_with_a_personal_head_is_fedper() -> None:
    one = run(fedsim(personal=HEAD, epochs=2, optimizer=PLAIN_SGD))
    other = run(fedper(blocks=1, epochs=2, optimizer=PLAIN_SGD))
    assert_same_server(one, other, BODY_NAMES)
    assert_same_clients(one, other, HEAD_NAMES)
    assert_same_records(one, other, "before_local")
    assert set(one.state) == set(BODY_NAMES)


def test_e04_fedalt_with_nothing_personal_is_fedavg() -> None:
    """The empty phase takes no step and no random number."""
    one = run_degenerate(fedalt(personal=NOTHING, personal_epochs=3, epochs=2, optimizer=PLAIN_SGD))
    other = run_fedavg()
    assert_equal(one.state, other.state)
    assert_same_server(one, other)
    assert_same_records(one, other, "after_local")


def test_e05_fedalt_with_a_personal_head_is_fedrep() -> None:
    one = run(fedalt(personal=last_blocks(1), personal_epochs=3, epochs=2, optimizer=PLAIN_SGD))
    other = run(fedrep(head_epochs=3, epochs=2, optimizer=PLAIN_SGD, final_head_epochs=0))
    assert_same_server(one, other, BODY_NAMES)
    assert_same_clients(one, other, HEAD_NAMES)
    assert_same_records(one, other, "before_local")


def test_e06_fedrep_without_head_epochs_is_fedbabu() -> None:
    one = run(fedrep(head_epochs=0, epochs=2, optimizer=PLAIN_SGD, final_head_epochs=0))
    other = run(fedbabu(epochs=2, optimizer=PLAIN_SGD))
    assert_same_server(one, other, BODY_NAMES)
    assert_same_records(one, other, "before_local")
    for own in one.own.values():
        assert_equal(own, only(one.task.weights, HEAD_NAMES))


def test_e07_fedbabu_with_a_trained_and_shared_head_is_fedavg() -> None:
    one, other = run(fedbabu(epochs=2, optimizer=PLAIN_SGD, head_rate=1.0)), run_fedavg()
    assert_same_server(one, other)
    assert_same_records(one, other, "before_local")


def test_e08_fedprox_without_penalty_is_the_method_below() -> None:
    with pytest.warns(DegenerateWarning, match="mu = 0"):
        algorithm = fedprox(mu=0.0, on=fedavg(epochs=2, optimizer=PLAIN_SGD))
    one, other = run(algorithm), run_fedavg()
    assert_same_server(one, other)
    assert_same_records(one, other, "before_local")


def test_e08_fedprox_without_penalty_on_fedbabu_is_fedbabu() -> None:
    below = fedbabu(epochs=2, optimizer=PLAIN_SGD, finetune_epochs=1)
    with pytest.warns(DegenerateWarning, match="mu = 0"):
        algorithm = fedprox(mu=0.0, on=below)
    one, other = run(algorithm), run(below)
    assert_same_server(one, other, BODY_NAMES)
    assert_same_records(one, other, "before_local")
    assert_same_records(one, other, "after_finetune")


def test_e08_fedprox_with_penalty_is_not() -> None:
    """The control: with a penalty the same comparison fails, on FedAvg and on FedBABU."""
    for below in (fedavg(epochs=2, optimizer=PLAIN_SGD), fedbabu(epochs=2, optimizer=PLAIN_SGD)):
        drawn, free = run(fedprox(mu=1.0, on=below)), run(below)
        assert not torch.allclose(drawn.state["layer1.weight"], free.state["layer1.weight"])


def test_e09_ditto_without_strength_is_local_beside_fedavg() -> None:
    with pytest.warns(DegenerateWarning, match="strength = 0"):
        algorithm = ditto(strength=0.0, epochs=2, personal_epochs=2, optimizer=PLAIN_SGD)
    one = run(algorithm)
    assert_same_server(one, run_fedavg())
    assert_same_clients(one, run_local(), prefix="personal/")
    assert_same_records(one, run_local(), "before_local")


@dataclass(frozen=True)
class WeightedMean:
    """The mean of what clients sent, by samples, not by way of a pseudo-gradient."""

    sees_single_models: bool = False

    def init(self, shared: Tensors, sizes: Sequence[int]) -> Tensors:
        return shared

    def download(self, state: Tensors, client: int, moment: Moment) -> Tensors:
        return state

    def aggregate(self, state: Tensors, updates: Sequence[Update], moment: Moment, network: Network) -> Tensors:
        total = sum(update.samples for update in updates)
        return {
            name: torch.stack([update.samples / total * update.values[name] for update in updates]).sum(0)
            for name in state
        }


@pytest.mark.parametrize("participation", [0.5, 1.0])
def test_e10_following_the_pseudo_gradient_at_rate_1_is_averaging(participation: float) -> None:
    algorithm = replace(fedavg(epochs=2, optimizer=PLAIN_SGD), server=averaging(optimizer=SGD(1.0)))
    one = run(algorithm, participation=participation)
    other = run(replace(algorithm, server=WeightedMean()), participation=participation)
    assert_same_server(one, other)
    assert_same_records(one, other, "before_local")


def test_e11_flayer_without_trust_in_its_own_head_is_fedavg() -> None:
    one = run(flayer(on=fedavg(epochs=2, optimizer=PLAIN_SGD), agg="received", lr=False, mask=False))
    assert_same_server(one, run_fedavg())
    assert_same_records(one, run_fedavg(), "before_local")


@pytest.mark.parametrize("participation", [1.0, 0.5])
@pytest.mark.parametrize("blocks", [1, 2])
def test_e11_flayer_with_full_trust_in_its_own_head_is_fedper(blocks: int, participation: float) -> None:
    """The server's head is not used, by a client's first round neither."""
    below = fedavg(epochs=2, optimizer=PLAIN_SGD)
    one = run(flayer(on=below, head=last_blocks(blocks), agg="own", lr=False, mask=False), participation=participation)
    other = run(fedper(blocks=blocks, epochs=2, optimizer=PLAIN_SGD), participation=participation)
    shared = ALL_NAMES[: 6 - 2 * blocks]
    assert_same_server(one, other, shared)
    assert_same_clients(one, other, ALL_NAMES[len(shared) :])
    assert_same_records(one, other, "after_local")
    assert_same_records(one, other, "before_local")


def one_layer() -> nn.Module:
    """The only layer of a network is the last, of which everything is sent."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return nn.Sequential(nn.Linear(4, 3)).double()


def test_e12_full_masks_are_no_masks() -> None:
    below = fedavg(epochs=2, optimizer=PLAIN_SGD)
    variants = [flayer(on=below), flayer(on=below, mask=False), flayer(on=below, dilute=True)]
    masked, whole, diluted = (run(algorithm, module=one_layer()) for algorithm in variants)
    for other in (whole, diluted):
        assert_equal(masked.state, other.state)
        assert_same_server(masked, other, ("0.weight", "0.bias"))
        assert_same_clients(masked, other, ("0.weight", "0.bias"))
        assert_same_records(masked, other, "before_local")
    assert all(one.up > other.up for one, other in zip(masked.traffic, whole.traffic, strict=True)), "masks travel"


def test_e12_partial_masks_are_not() -> None:
    """The control: with several layers the three differ."""
    below = fedavg(epochs=2, optimizer=PLAIN_SGD)
    variants = [flayer(on=below), flayer(on=below, mask=False), flayer(on=below, dilute=True)]
    masked, whole, diluted = (run(algorithm).state["layer1.weight"] for algorithm in variants)
    assert not torch.allclose(masked, whole)
    assert not torch.allclose(masked, diluted)


def test_e13_fedala_that_takes_all_received_is_fedavg() -> None:
    one = run(fedala(mix_init=1.0, mix_lr=0.0, epochs=2, optimizer=PLAIN_SGD))
    assert_same_server(one, run_fedavg())
    assert_same_records(one, run_fedavg(), "after_local")
    assert_same_records(one, run_fedavg(), "after_finetune", "before_local")


@pytest.mark.parametrize("participation", [1.0, 0.5])
def test_e13_fedala_that_takes_nothing_received_is_fedper(participation: float) -> None:
    """A client that never took part keeps its initial head too."""
    one = run(fedala(mix_init=0.0, mix_lr=0.0, epochs=2, optimizer=PLAIN_SGD), participation=participation)
    other = run(fedper(blocks=1, epochs=2, optimizer=PLAIN_SGD), participation=participation)
    assert_same_server(one, other, BODY_NAMES)
    assert_same_clients(one, other, HEAD_NAMES)
    assert_same_records(one, other, "after_local")
    assert_same_records(one, other, "after_finetune", "before_local")


def test_e14_fedamp_without_attention_sends_each_client_its_own() -> None:
    one = run(fedamp(alpha=0.0, epochs=2, optimizer=PLAIN_SGD))
    for number, own in one.own.items():
        received = one.algorithm.server.download(one.state, number, Moment())
        assert_equal(received, own)
        assert_moved(received, one.task.weights, ALL_NAMES)
    assert_same_clients(one, run_local())
    assert_same_records(one, run_local(), "before_local")


def test_e15_fedamp_without_pull_is_local() -> None:
    """PFLlib's flavour: the messages are sent, and have no effect."""
    with pytest.warns(DegenerateWarning, match="strength = 0"):
        algorithm = fedamp(strength=0.0, epochs=2, optimizer=PLAIN_SGD)
    one = run(algorithm)
    for number, own in one.own.items():
        received = one.algorithm.server.download(one.state, number, Moment())
        assert not torch.allclose(received["layer1.weight"], own["layer1.weight"], atol=1e-6)
    assert_same_clients(one, run_local())
    assert_same_records(one, run_local(), "before_local")


def test_e16_apple_with_fixed_relations_to_itself_is_local() -> None:
    below = apple(mu=0.0, relation_rate=0.0, epochs=2, optimizer=PLAIN_SGD)

    def related_to_itself(client: Client) -> Tensors:
        itself = torch.eye(len(SIZES), dtype=torch.float64)[client.id]
        return below.expand(client) | {"relations/all": itself}

    one = run(replace(below, expand=related_to_itself))
    for number, own in one.own.items():
        assert own["relations/all"].tolist() == [float(number == other) for other in range(len(SIZES))]
        stored = under(f"server/core/{number}/", one.state)
        assert_equal(stored, only(own, ALL_NAMES))
    assert_same_clients(one, run_local())
    assert_same_records(one, run_local(), "before_local")


@dataclass(frozen=True)
class SecondOfTwo:
    """The plain gradient on every second batch."""

    batches: int = 2

    def __call__(
        self, gradient_at: GradientAt, trained: Tensors, batches: Sequence[Samples], tensors: Tensors
    ) -> tuple[Tensors, Tensors]:
        return gradient_at(trained, batches[1]), {}


def test_e17_per_fedavg_without_adaptation_is_fedavg_on_every_second_batch() -> None:
    with pytest.warns(DegenerateWarning, match="alpha = 0"):
        algorithm = per_fedavg(alpha=0.0, epochs=2, optimizer=PLAIN_SGD)
    every_second = Phase(NETWORK, PLAIN_SGD, epochs=2, gradient=SecondOfTwo())
    one, other = run(algorithm), run(replace(fedavg(), phases=(every_second,)))
    assert_same_server(one, other)
    assert_same_records(one, other, "before_local")
    assert_same_records(one, other, "after_finetune", "before_local")
    assert not torch.allclose(one.state["layer1.weight"], run_fedavg().state["layer1.weight"])


def test_e18_lg_fedavg_that_shares_nothing_is_local() -> None:
    one = run_degenerate(lg_fedavg(blocks=0, epochs=2, optimizer=PLAIN_SGD))
    assert one.state == {}
    assert_same_clients(one, run_local())
    assert_same_records(one, run_local(), "before_local")


def test_e18_lg_fedavg_that_shares_everything_is_fedavg() -> None:
    one, other = run_degenerate(lg_fedavg(blocks=3, epochs=2, optimizer=PLAIN_SGD)), run_fedavg()
    assert_same_server(one, other)
    assert_same_records(one, other, "before_local")


@pytest.mark.filterwarnings("ignore:Only one client trains")
def test_e19_one_client_alone_makes_all_methods_local() -> None:
    averaged, alone, personal = (
        run(method(epochs=2, optimizer=PLAIN_SGD), participation=1.0, sizes=(12,)) for method in (fedavg, local, fedper)
    )
    own = alone.own[0]
    assert_close(averaged.state, own)
    assert_close(personal.state | personal.own[0], own)
    assert_moved(own, alone.task.weights, ALL_NAMES)
    assert_same_records(averaged, alone, "before_local")
    assert_same_records(personal, alone, "before_local")


def next_clients(result: Result) -> list[Client]:
    """All clients as they enter the round after the last."""
    moment = Moment(result.rounds, result.rounds + 1, result.setup.experiment.seed)
    return [
        Client(
            number,
            result.task,
            result.data[number].train,
            result.data[number].validation,
            moment,
            BATCHING,
            own=result.own.get(number, {}),
            received=result.algorithm.server.download(result.state, number, moment),
        )
        for number in range(len(result.data))
    ]


@cache
def midway(name: str) -> Result:
    """A method at its default settings after a round of three of four clients, on a network with batch norm."""
    algorithm: Algorithm = registry.get("algorithms", name)()
    return run(algorithm, rounds=1, participation=0.75, module=small_network())


def assert_same_training(one: Trained, other: Trained) -> None:
    assert_equal(one.tensors, other.tensors)
    assert_equal(one.own, other.own)
    assert_equal(one.update.values, other.update.values)
    assert_equal(one.update.mask or {}, other.update.mask or {})
    assert (one.update.client, one.update.samples) == (other.update.client, other.update.samples)


@pytest.mark.parametrize("name", METHODS)
def test_e20_order_and_grouping_of_clients_do_not_matter(name: str) -> None:
    result = midway(name)
    clients = next_clients(result)
    together = client_round(result.algorithm, clients, run_phase)
    one_by_one = [client_round(result.algorithm, [client], run_phase)[0] for client in clients]
    backwards = client_round(result.algorithm, clients[::-1], run_phase)[::-1]
    in_pairs = [
        trained
        for pair in (clients[:2], clients[2:])
        for trained in reversed(client_round(result.algorithm, pair[::-1], run_phase))
    ]
    for other in (one_by_one, backwards, in_pairs):
        for mine, theirs in zip(together, other, strict=True):
            assert_same_training(mine, theirs)
    assert_moved(together[0].tensors, result.algorithm.expand(clients[0]), ("layer1.weight",))


def test_e20_each_client_and_round_has_its_own_order_of_batches() -> None:
    """The same data under another id or in another round is seen in another order, under the same ones in the same."""
    first = next_clients(midway("fedavg"))[0]
    other, later = replace(first, id=1), replace(first, moment=replace(first.moment, round=5))
    orders = [
        torch.cat([batch.inputs for batch in client.batches(client.train, 0)]) for client in (first, other, later)
    ]
    assert torch.equal(orders[0], torch.cat([batch.inputs for batch in replace(first).batches(first.train, 0)]))
    assert not torch.equal(orders[0], orders[1])
    assert not torch.equal(orders[0], orders[2])


@pytest.mark.parametrize("method", [fedalt, fedsim], ids=["fedalt", "fedsim"])
def test_e21_stateless_is_stateful_in_the_only_round(method: Callable[..., Algorithm]) -> None:
    stateful, stateless = (
        run(method(optimizer=PLAIN_SGD, stateful=keeps), participation=1.0, rounds=1) for keeps in (True, False)
    )
    assert_equal(stateful.state, stateless.state)
    assert_same_server(stateful, stateless, BODY_NAMES)
    assert_same_records(stateful, stateless, "after_local")
    assert all(not own for own in stateless.own.values())
    assert all(set(own) == set(HEAD_NAMES) for own in stateful.own.values())


@pytest.mark.parametrize("name", [name for name in METHODS if name != "local"])
def test_e22_order_of_updates_does_not_matter(name: str) -> None:
    """To the bit: the server adds them up in the order of client ids."""
    result = midway(name)
    clients = next_clients(result)
    updates = [trained.update for trained in client_round(result.algorithm, clients, run_phase)]
    held = result.data.sample_of_training(0.5, SEED)
    server = Client(-1, result.task, held, held.take(slice(0)), clients[0].moment, BATCHING)

    def after(ordered: Sequence[Update]) -> Tensors:
        return server_round(result.algorithm, result.state, ordered, clients[0].moment, server, run_phase)

    expected = after(updates)
    for order in ([3, 2, 1, 0], [2, 0, 3, 1]):
        assert_equal(after([updates[at] for at in order]), expected)
    assert any(not torch.equal(tensor, expected[at]) for at, tensor in result.state.items())
