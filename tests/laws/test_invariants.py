"""What must hold in every round: what never changes, never travels, or always sums to one.

One file, since all invariants are read off the same recorded rounds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
import torch

from laws.test_equivalences import BATCHING, HEAD_NAMES, METHODS, SIZES, assert_equal, midway, next_clients, run
from partita.algorithms.apfl import apfl
from partita.algorithms.apple import apple
from partita.algorithms.ditto import ditto
from partita.algorithms.ditto_finetune import ditto_finetune
from partita.algorithms.fedala import fedala
from partita.algorithms.fedalt import fedalt
from partita.algorithms.fedamp import fedamp
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedbabu import fedbabu
from partita.algorithms.fedbn import fedbn
from partita.algorithms.fedcp import fedcp, policy
from partita.algorithms.fedper import fedper
from partita.algorithms.fedprox import fedprox
from partita.algorithms.fedrep import fedrep
from partita.algorithms.fedsim import fedsim
from partita.algorithms.finetune import finetune
from partita.algorithms.flayer import flayer
from partita.algorithms.gpfl import gpfl
from partita.algorithms.lg_fedavg import lg_fedavg
from partita.algorithms.local import local
from partita.algorithms.scaffold import scaffold
from partita.core.algorithm import Algorithm, Trained, begin, client_round, initial_state, personalize, server_round
from partita.core.client import Client
from partita.core.initialization import HeadInit
from partita.core.optimizers import SGD
from partita.core.phases import Phase
from partita.core.selectors import BODY, HEAD, INPUT, NORM, Selector, last_blocks, where
from partita.core.server import Update, Weights, pseudo_gradient
from partita.core.task import Task
from partita.engine.reference import run_phase
from partita.evaluation.measurement import measure
from partita.experiment.samplers import Fraction
from partita.experiment.simulate import simulate
from partita.randomness import Moment
from partita.servers.averaging import averaging
from partita.tensors import Tensors, only, prefixed, under
from toys import small_federation, small_network

HEAVY = SGD(0.1, momentum=0.9, weight_decay=0.01)
"""Momentum and decay move what is not frozen for good, even without a gradient."""


@dataclass(frozen=True, eq=False)
class Round:
    """What is known of a round: who took part, with what, and what came of it."""

    clients: Sequence[Client]
    trained: Sequence[Trained]
    state: Tensors


def rounds_of(algorithm: Algorithm, *, rounds: int = 3, norm: bool = True, seed: int = 1) -> Iterator[Round]:
    """A federation of four, of which half take part in a round."""
    task, data = Task(small_network(norm=norm)), small_federation(SIZES)
    own: dict[int, Tensors] = {}

    def client(number: int, moment: Moment, state: Tensors) -> Client:
        received = algorithm.server.download(state, number, moment)
        held = data[number]
        return Client(
            number, task, held.train, held.validation, moment, BATCHING, own=own.get(number, {}), received=received
        )

    first = Client(-1, task, data[0].train, data[0].validation, Moment(0, rounds, seed), BATCHING)
    state = initial_state(algorithm, first, data.sizes)
    for number in range(rounds):
        moment = Moment(number, rounds, seed)
        clients = [client(chosen, moment, state) for chosen in Fraction(0.5)(len(data), moment)]
        trained = client_round(algorithm, clients, run_phase)
        state = server_round(algorithm, state, [each.update for each in trained], moment, first, run_phase)
        own |= {each.id: result.own for each, result in zip(clients, trained, strict=True)}
        yield Round(clients, trained, state)


def copied(tensors: Mapping[str, torch.Tensor]) -> Tensors:
    return {name: tensor.clone() for name, tensor in tensors.items()}


# FedBABU's head


@pytest.mark.parametrize("kind", ["default", "orthogonal"])
@pytest.mark.parametrize("wrapped", [False, True], ids=["plain", "fedprox"])
def test_fedbabu_head_stays_as_drawn_in_every_client(kind: HeadInit, wrapped: bool) -> None:
    algorithm = fedbabu(epochs=1, optimizer=HEAVY, head_init=kind)
    algorithm = fedprox(mu=0.1, on=algorithm) if wrapped else algorithm
    for each in rounds_of(algorithm):
        for client, trained in zip(each.clients, each.trained, strict=True):
            assert_equal(only(trained.tensors, HEAD_NAMES), only(algorithm.expand(client), HEAD_NAMES))
            assert not set(HEAD_NAMES) & set(trained.update.values)
            assert not trained.own
            assert not torch.equal(trained.tensors["layer1.weight"], client.received["layer1.weight"])
        assert not set(HEAD_NAMES) & set(each.state)


@pytest.mark.parametrize("kind", ["default", "orthogonal"])
def test_fedbabu_head_stays_as_drawn_on_the_server(kind: HeadInit) -> None:
    """Under whichever head the clients trained the body, the server's network has that one."""
    result = run(fedbabu(epochs=1, optimizer=HEAVY, head_init=kind))
    drawn = begin(result.algorithm, next_clients(result)[0])
    assert_equal(only(result.network_weights(), HEAD_NAMES), only(drawn, HEAD_NAMES))
    assert not torch.equal(result.network_weights()["layer1.weight"], result.task.weights["layer1.weight"])


# What is personal


@pytest.mark.parametrize(
    ("algorithm", "personal"),
    [
        (fedper(epochs=1, optimizer=HEAVY), HEAD),
        (fedper(blocks=2, epochs=1, optimizer=HEAVY, head_warmup_epochs=1), last_blocks(2)),
        (fedper(epochs=1, personal_init="independent"), HEAD),
        (fedrep(head_epochs=1, optimizer=HEAVY), HEAD),
        (fedrep(head_epochs=1, optimizer=HEAVY, switched=True), HEAD),
        (fedalt(optimizer=HEAVY), HEAD),
        (fedalt(personal=INPUT, optimizer=HEAVY, stateful=False), INPUT),
        (fedalt(personal=where("norm1", "head"), optimizer=HEAVY), where("norm1", "head")),
        (fedprox(mu=0.1, on=fedalt(personal=NORM)), NORM),
        (finetune(on=fedper(epochs=1)), HEAD),
    ],
    ids=[
        "fedper", "fedper-2", "fedper-independent", "fedrep", "fedrep-switched", "fedalt", "fedalt-input",
        "fedalt-where", "fedprox-fedalt", "finetune-fedper",
    ],
)  # fmt: skip
def test_personal_tensors_are_never_uploaded(algorithm: Algorithm, personal: Selector) -> None:
    """Nor optimizer state, nor counters; and nothing personal is on the server."""
    for each in rounds_of(algorithm):
        for client, trained in zip(each.clients, each.trained, strict=True):
            network = client.task.network
            held = personal(network, frozenset(network.names))
            expected = frozenset(network.names) - held - network.counters
            assert set(trained.update.values) == expected
            assert not held & set(each.state)
            assert any(not torch.equal(trained.tensors[name], client.task.weights[name]) for name in held)


@pytest.mark.parametrize(
    "algorithm",
    [
        apfl(), apple(mu=0.0, epochs=1), ditto(), fedala(), fedalt(), fedamp(), fedbn(), fedcp(), fedper(epochs=1),
        fedprox(on=fedper(epochs=1)), fedrep(head_epochs=1), fedsim(), flayer(), flayer(variant="official"),
        flayer(on=ditto()), gpfl(), lg_fedavg(), local(), scaffold(),
    ],
    ids=lambda algorithm: algorithm.name,
)  # fmt: skip
def test_absent_clients_keep_their_state(algorithm: Algorithm) -> None:
    two, three = (
        simulate(
            algorithm, small_network(), small_federation(SIZES), rounds=rounds, participation=0.5, seed=1,
            batching=BATCHING,
        )
        for rounds in (2, 3)
    )  # fmt: skip
    present = set(Fraction(0.5)(len(SIZES), Moment(2, 3, 1)))
    absent = set(two.own) - present
    assert absent
    for number in absent:
        assert_equal(three.own[number], two.own[number])
    for number in set(two.own) & present:
        assert any(not torch.equal(tensor, three.own[number][name]) for name, tensor in two.own[number].items())


# The start of a round


@pytest.mark.parametrize("variant", ["paper", "official"])
@pytest.mark.parametrize("head", [HEAD, last_blocks(2)], ids=["head", "last_blocks:2"])
def test_flayer_begins_with_the_received_base(variant: str, head: Selector) -> None:
    """Also after a head epoch, and also when the model is used."""
    algorithm = flayer(on=fedavg(epochs=2), variant=variant, head=head)  # type: ignore[arg-type]
    clients = next_clients(run(algorithm, rounds=2, participation=1.0))
    network = clients[0].task.network
    base = sorted(set(network.names) - head(network, frozenset(network.names)))
    given: list[Tensors] = []
    blended: list[bool] = []

    def watching(phase: Phase, block: Sequence[Client], tensors: Sequence[Tensors]) -> list[Tensors]:
        given.extend(tensors)
        return run_phase(phase, block, tensors)

    for client in clients:
        given.clear()
        client_round(algorithm, [client], watching)
        given += personalize(algorithm, [client], run_phase)
        assert len(given) >= 2
        for tensors in given:
            assert_equal(only(tensors, base), only(client.received, base))
        blended.append(not torch.equal(given[-1]["head.weight"], client.received["head.weight"]))
    assert any(blended)


def test_lg_fedavg_heads_are_equal_after_the_download() -> None:
    result = run(lg_fedavg(optimizer=SGD(0.1)))
    begun = [begin(result.algorithm, client) for client in next_clients(result)]
    for tensors in begun:
        assert_equal(only(tensors, HEAD_NAMES), only(result.state, HEAD_NAMES))
    assert set(result.state) == set(HEAD_NAMES)
    assert not torch.equal(begun[0]["head.weight"], result.task.weights["head.weight"])
    bodies = {tuple(tensors["layer1.weight"].flatten().tolist()) for tensors in begun}
    assert len(bodies) == len({*result.own}) + 1, "each participant its own, and the initial one"


# Weights of a mean


def test_fedala_mixture_is_between_0_and_1() -> None:
    """A rate so large that every step would leave the interval; entries end on both sides and between."""
    seen = []
    for each in rounds_of(fedala(mix_lr=30.0, optimizer=SGD(0.1), max_start_epochs=12), rounds=5):
        for trained in each.trained:
            seen += [tensor.flatten() for tensor in under("mix/", trained.tensors).values()]
    mix = torch.cat(seen)
    assert mix.min() == 0
    assert mix.max() == 1
    assert ((mix > 0) & (mix < 1)).any()


@pytest.mark.parametrize("noise", [True, False], ids=["noise", "plain"])
def test_fedcp_masks_sum_to_one(noise: bool) -> None:
    """With the same head on both sides, the answer is that head's on the whole feature, and its bias once more."""
    result = run(fedcp(noise_in_use=noise, optimizer=SGD(0.1)))
    client = next_clients(result)[0]
    tensors = begin(result.algorithm, client)
    weights = only(tensors, client.task.weights)
    features = client.task.features(weights, client.train.inputs)
    share = policy(tensors, features, noise=noise)
    assert ((share > 0) & (share < 1)).all()
    assert share.std() > 1e-3
    same = tensors | prefixed("global/", only(weights, HEAD_NAMES))
    answer = result.algorithm.outputs(same, client.train.inputs, client)
    expected = client.task.head_outputs(weights, features) + weights["head.bias"]
    assert torch.allclose(answer, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("population", [3, 5], ids=["all-present", "some-absent"])
def test_fedamp_messages_are_means(population: int) -> None:
    """Every network moved by the same distance moves every message by it, so each row of weights sums to one."""
    algorithm = fedamp(alpha=0.2, sigma=2.0)
    network = Task(small_network()).network
    models = [torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(at)) for at in range(4)]

    def messages(shift: float, present: int = 3) -> list[torch.Tensor]:
        """To all clients, of whom some were present and the others have the initial network."""
        state = algorithm.server.init({"w": models[3] + shift}, [1] * population)
        updates = [Update(at, {"w": models[min(at, 3)] + shift}, 1, 1) for at in range(present)]
        state = algorithm.server.aggregate(state, updates, Moment(), network)
        return [algorithm.server.download(state, at, Moment())["w"] for at in range(population)]

    for number, (message, moved) in enumerate(zip(messages(0.0), messages(100.0), strict=True)):
        assert torch.allclose(moved - message, torch.full_like(message, 100.0), rtol=0, atol=1e-10)
        assert not torch.allclose(message, models[min(number, 3)], atol=1e-4)
    for message, spelt_out in zip(messages(0.0), messages(0.0, present=population), strict=True):
        assert torch.allclose(message, spelt_out, rtol=0, atol=1e-14)


@pytest.mark.parametrize("weights", ["samples", "uniform", "batches"])
@pytest.mark.parametrize("masked", [False, True])
def test_averaging_weights_sum_to_one(weights: Weights, masked: bool) -> None:
    """Clients that agree are followed exactly, whatever their sizes and masks; entries that nobody sent stay."""
    masks = torch.tensor([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 0, 0]], dtype=torch.bool)
    target = torch.tensor([0.5, -1.5, 2.0, 4.0], dtype=torch.float64)
    updates = [
        Update(at, {"w": target}, samples, batches, {"w": mask} if masked else None)
        for at, (samples, batches, mask) in enumerate(zip((3, 7, 90), (1, 2, 9), masks, strict=True))
    ]
    shared = {"w": torch.ones(4, dtype=torch.float64)}
    sent = masks.any(0) if masked else torch.ones(4, dtype=torch.bool)
    expected = torch.where(sent, target, shared["w"])
    assert torch.allclose(shared["w"] - pseudo_gradient(shared, updates, weights)["w"], expected, rtol=0, atol=1e-14)
    server = averaging(weights=weights)
    state = server.aggregate(server.init(shared, [1, 1, 1]), updates, Moment(), Task(small_network()).network)
    assert torch.allclose(state["w"], expected, rtol=0, atol=1e-14)


# Use of the model

TUNED: dict[str, Algorithm] = {
    "fedbabu-body": fedbabu(epochs=1, finetune_part=BODY),
    "finetune-fedavg": finetune(on=fedavg()),
    "finetune-ditto": finetune(on=ditto()),
    "finetune-local": finetune(on=local()),
    "finetune-fedbn": finetune(on=fedbn()),
    "ditto_finetune-fedper": ditto_finetune(on=fedper(epochs=1)),
    "flayer-official": flayer(variant="official"),
    "flayer-ditto": flayer(on=ditto(), head_warmup_epochs=1),
}


@pytest.mark.parametrize("name", [*METHODS, *TUNED])
def test_fine_tuning_and_evaluation_leave_no_trace(name: str) -> None:
    """Neither on what clients keep and received, nor on the server, nor on the initial weights: to the bit.

    The network has batch norm, whose statistics torch updates in place.
    """
    result = run(TUNED[name], rounds=1, participation=0.75, module=small_network()) if name in TUNED else midway(name)
    clients = next_clients(result)

    def everything() -> list[Tensors]:
        each = [tensors for client in clients for tensors in (client.own, client.received)]
        return [result.state, result.task.weights, *result.own.values(), *each]

    before = [copied(tensors) for tensors in everything()]
    tuned = personalize(result.algorithm, clients, run_phase)
    for client, tensors in zip(clients, tuned, strict=True):
        measure(result.algorithm, client, tensors, client.validation, 3)
    for old, new in zip(before, everything(), strict=True):
        assert_equal(old, new)
    if any(isinstance(stage, Phase) for stage in result.algorithm.finetune):
        begun = [begin(result.algorithm, client) for client in clients]
        assert any(not torch.equal(new, old[at]) for old, tensors in zip(begun, tuned, strict=True)
                   for at, new in tensors.items() if at in old)  # fmt: skip
    again = personalize(result.algorithm, [replace(client) for client in clients], run_phase)
    for one, other in zip(tuned, again, strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize("name", METHODS)
def test_training_leaves_what_was_given_as_it_was(name: str) -> None:
    """A round returns new tensors; those a client came with, and the initial ones, stay to the bit."""
    result = midway(name)
    clients = next_clients(result)
    given = [tensors for client in clients for tensors in (client.own, client.received)]
    before = [copied(tensors) for tensors in (*given, result.task.weights)]
    client_round(result.algorithm, clients, run_phase)
    for old, new in zip(before, (*given, result.task.weights), strict=True):
        assert_equal(old, new)
