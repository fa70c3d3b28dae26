"""Laws that every method obeys, whatever it computes: found by discovery, so that a new method is held to them too.

One file, since all laws look at the same clients in the middle of the same runs.
"""

import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache

import pytest
import torch
from torch import Tensor, nn

from laws.methods import ALGORITHMS, AS_MADE, SERVER_OPTIMIZERS, clients_after
from partita import registry
from partita.core.algorithm import (
    Algorithm,
    Trained,
    begin,
    client_round,
    initial_state,
    kept_names,
    personalize,
    server_round,
)
from partita.core.batching import Batching
from partita.core.client import Client
from partita.core.optimizers import SGD
from partita.core.phases import Phase
from partita.core.samples import Samples
from partita.core.task import Task
from partita.data.federation import Federation
from partita.engine.reference import run_phase
from partita.evaluation.measurement import measure
from partita.experiment.result import Result
from partita.experiment.samplers import Fraction
from partita.experiment.simulate import simulate
from partita.randomness import Moment
from partita.tensors import Tensors, network_name
from toys import small_federation, small_network

# With this seed clients 1 and 2 take part in the first two rounds, 0 and 1 in the third.
SEED = 1
PARTICIPATION = 0.67
BATCHING = Batching(3)
DATA = small_federation((6, 5, 7))
MIDWAY = Moment(round=2, rounds=3, seed=SEED)

every_algorithm = pytest.mark.parametrize("name", ALGORITHMS)


def run(
    algorithm: Algorithm, *, rounds: int = 2, seed: int = SEED, data: Federation = DATA, evaluate_every: int = 10
) -> Result:
    """Two of three clients in each round."""
    return simulate(
        algorithm,
        small_network(),
        data,
        rounds=rounds,
        seed=seed,
        participation=PARTICIPATION,
        batching=BATCHING,
        evaluate_every=evaluate_every,
    )


@cache
def two_rounds(name: str) -> Result:
    return run(ALGORITHMS[name])


def clients_midway(name: str) -> list[Client]:
    """All clients before the third round: with a state of their own if they took part before."""
    result, algorithm = two_rounds(name), ALGORITHMS[name]
    return clients_after(result, algorithm, DATA, MIDWAY, BATCHING)


def server_midway(name: str) -> Client:
    """The server as the holder of some data."""
    held = DATA.sample_of_training(0.5, SEED)
    return Client(-1, two_rounds(name).task, held, held.take(slice(0)), MIDWAY, BATCHING)


def tensors_in(value: object) -> Iterator[Tensor]:
    """Every tensor that can be reached from a value through containers, records, modules and public attributes."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, nn.Module):
        yield from value.state_dict().values()
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from tensors_in(part)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for part in value:
            yield from tensors_in(part)
    elif isinstance(value, Samples):
        yield from (value.stored, value.inputs, value.targets)
    elif is_dataclass(value) or isinstance(value, Task):
        for part in vars(value).values():
            yield from tensors_in(part)


def snapshot(*values: object) -> list[Tensor]:
    return [tensor.clone() for tensor in tensors_in(values)]


def same_list(one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
    return len(one) == len(other) and all(map(torch.equal, one, other))


def same(one: Tensors, other: Tensors) -> bool:
    """To the bit, name by name."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def same_trained(one: Trained, other: Trained) -> bool:
    return (
        same(one.own, other.own)
        and same(one.tensors, other.tensors)
        and same(one.update.values, other.update.values)
        and same(one.update.mask or {}, other.update.mask or {})
        and (one.update.client, one.update.samples, one.update.batches)
        == (other.update.client, other.update.samples, other.update.batches)
    )


def same_result(one: Result, other: Result) -> bool:
    """What a run leaves on the server and on the clients."""
    return (
        same(one.state, other.state)
        and one.own.keys() == other.own.keys()
        and all(same(one.own[client], other.own[client]) for client in one.own)
    )


@every_algorithm
def test_only_shared_tensors_leave_a_client(name: str) -> None:
    algorithm, clients = ALGORITHMS[name], clients_midway(name)
    network = clients[0].task.network
    for trained in client_round(algorithm, clients, run_phase):
        sent = set(trained.update.values)
        assert sent <= algorithm.shared(network, frozenset(trained.tensors))
        assert not sent & network.counters
        assert set(trained.update.mask or {}) <= sent, "the mask of a tensor tells about the tensor"


@pytest.mark.parametrize("name", [name for name, algorithm in ALGORITHMS.items() if algorithm.personal])
def test_the_personal_part_never_leaves_a_client(name: str) -> None:
    if name.startswith("flayer("):
        pytest.skip("FLAYER needs an aggregated head, also on methods that would keep it")
    algorithm, clients = ALGORITHMS[name], clients_midway(name)
    network = clients[0].task.network
    personal = algorithm.personal(network, frozenset(network.names)) if algorithm.personal else frozenset()
    assert personal
    for trained in client_round(algorithm, clients, run_phase):
        assert not {name for name in trained.update.values if name in personal}


@every_algorithm
def test_a_round_leaves_its_inputs_as_they_were(name: str) -> None:
    algorithm, clients, server = ALGORITHMS[name], clients_midway(name), server_midway(name)
    state = two_rounds(name).state
    before = snapshot(state, clients, server, DATA)
    updates = [trained.update for trained in client_round(algorithm, clients, run_phase)]
    sent = snapshot(updates)
    server_round(algorithm, state, updates, MIDWAY, server, run_phase)
    personalize(algorithm, clients, run_phase)
    assert same_list(snapshot(state, clients, server, DATA), before)
    assert same_list(snapshot(updates), sent)


@every_algorithm
def test_what_a_phase_does_not_train_stays_to_the_bit(name: str) -> None:
    algorithm, clients = ALGORITHMS[name], clients_midway(name)
    refinement = algorithm.refinement.phases if algorithm.refinement else ()
    for client in clients:
        for stages in (algorithm.phases, algorithm.finetune, refinement):
            tensors = begin(algorithm, client)
            for stage in stages:
                tensors = _after(stage, client, tensors) if isinstance(stage, Phase) else stage(tensors, client)


def _after(phase: Phase, client: Client, before: Tensors) -> Tensors:
    """The tensors after a phase with an optimizer that would move whatever it is given."""
    network = client.task.network
    pushy = replace(phase, optimizer=SGD(phase.optimizer.lr, momentum=0.9, weight_decay=0.1))
    [after] = run_phase(pushy, [client], [before])
    trained = phase.trained(network, frozenset(before))
    # An estimator may carry its own iterate along.
    fixed = [n for n in before if n not in trained | network.buffers and not n.startswith(("theta/", "optimizer/"))]
    fixed = [n for n in fixed if network_name(n) not in network.buffers]
    assert before.keys() <= after.keys()
    assert [n for n in fixed if not torch.equal(before[n], after[n])] == []
    if phase.steps_taken(client):
        assert not same({n: before[n] for n in trained}, {n: after[n] for n in trained})
    return after


@every_algorithm
def test_a_round_changes_the_state_of_those_who_take_part_and_of_no_other(name: str) -> None:
    """Through the simulation, as clients see it: evaluation after a round shows every client its own state."""
    algorithm, seen = ALGORITHMS[name], dict[tuple[int, int], Tensors]()

    def watched(tensors: Tensors, client: Client) -> Tensors:
        # The first to ask in a round is the client itself; a stranger in its place comes after it.
        seen.setdefault((client.moment.round, client.id), {n: t.clone() for n, t in client.own.items()})
        return algorithm.start(tensors, client)

    result = run(replace(algorithm, start=watched, finetune=()), rounds=3, evaluate_every=1)
    kept = kept_names(algorithm, result.task, clients_midway(name)[0].initial)
    for number in (1, 2):
        present = Fraction(PARTICIPATION)(len(DATA), Moment(round=number, rounds=3, seed=SEED))
        for client in range(len(DATA)):
            before, after = seen[number, client], seen[number + 1, client]
            if client not in present:
                assert same(before, after)
            else:
                assert after.keys() >= kept
                assert not kept or not same(before, after)


@pytest.mark.parametrize("name", [name for name in ALGORITHMS if name != "local"])
def test_what_is_shared_moves_in_one_round(name: str) -> None:
    algorithm = AS_MADE[name]
    result = simulate(algorithm, small_network(), DATA, rounds=1, batching=BATCHING)
    moment = Moment(round=1, rounds=1)
    first = initial_state(algorithm, replace(server_midway(name), moment=Moment()), DATA.sizes)
    before, after = (algorithm.server.download(state, 0, moment) for state in (first, result.state))
    # Batch norm takes the bias of the layer before it out again, so that one has no gradient.
    learned = [n for n in before if network_name(n) in set(result.task.network.parameters) - {"layer1.bias"}]
    assert learned
    assert [n for n in learned if torch.equal(before[n], after[n])] == []


def test_local_training_shares_nothing() -> None:
    assert two_rounds("local").state == {}
    assert all(traffic.up == traffic.down == 0 for traffic in two_rounds("local").traffic)


@every_algorithm
def test_neither_order_nor_company_of_clients_matters(name: str) -> None:
    algorithm, clients = ALGORITHMS[name], clients_midway(name)
    together = client_round(algorithm, clients, run_phase)
    backwards = client_round(algorithm, clients[::-1], run_phase)[::-1]
    blocks = client_round(algorithm, clients[:1], run_phase) + client_round(algorithm, clients[1:], run_phase)
    for other in (backwards, blocks):
        assert all(map(same_trained, together, other))
    tuned, tuned_backwards = (personalize(algorithm, each, run_phase) for each in (clients, clients[::-1]))
    assert all(map(same, tuned, tuned_backwards[::-1]))


@every_algorithm
def test_the_order_of_updates_does_not_matter(name: str) -> None:
    algorithm, clients, server = ALGORITHMS[name], clients_midway(name), server_midway(name)
    state = two_rounds(name).state
    updates = [trained.update for trained in client_round(algorithm, clients, run_phase)]
    orders = (updates, updates[::-1], [updates[at] for at in (1, 2, 0)])
    one, *others = (server_round(algorithm, state, order, MIDWAY, server, run_phase) for order in orders)
    assert all(same(one, other) for other in others)
    after = replace(MIDWAY, round=3)
    for client in range(len(DATA)):
        downloads = [algorithm.server.download(new, client, after) for new in (one, *others)]
        assert all(same(downloads[0], other) for other in downloads)


@every_algorithm
def test_personalizing_twice_gives_the_same_bits(name: str) -> None:
    algorithm, clients = ALGORITHMS[name], clients_midway(name)
    once, again = (personalize(algorithm, clients, run_phase) for _ in range(2))
    assert all(map(same, once, again))


@every_algorithm
def test_evaluating_more_often_changes_nothing(name: str) -> None:
    often = run(ALGORITHMS[name], evaluate_every=1)
    assert same_result(often, two_rounds(name))
    assert [record for record in often.records if record.round == 2] == two_rounds(name).records


@every_algorithm
def test_the_same_seed_gives_the_same_bits(name: str) -> None:
    result = two_rounds(name)
    again = run(ALGORITHMS[name])
    assert same_result(result, again)
    assert (result.records, result.traffic) == (again.records, again.traffic)


@every_algorithm
def test_another_seed_gives_other_bits(name: str) -> None:
    """In one client's round already, not only in who takes part."""
    algorithm, client = ALGORITHMS[name], clients_midway(name)[1]
    other = replace(client, moment=replace(MIDWAY, seed=SEED + 1))
    one, another = client_round(algorithm, [client, other], run_phase)
    assert not same(one.tensors, another.tensors)


def test_another_seed_makes_another_run() -> None:
    assert not same_result(two_rounds("fedavg"), run(ALGORITHMS["fedavg"], seed=SEED + 1))


def rows(client: Client) -> list[set[int]]:
    """What each batch of the first epoch holds."""
    return [set(batch.tolist()) for batch in client.rows(len(client.train), 0)]


@pytest.mark.parametrize("where", ["client", "round"])
@pytest.mark.parametrize(("name", "shuffle"), [("fedavg", True), ("fedcp", False)], ids=["order", "noise"])
def test_clients_and_rounds_have_random_numbers_of_their_own(name: str, shuffle: bool, where: str) -> None:
    """The same data, but another client or round: batches come in another order, and noise is other noise."""
    client = replace(clients_midway(name)[1], batching=replace(BATCHING, shuffle=shuffle))
    others = (
        [replace(client, id=number) for number in (0, 2)]
        if where == "client"
        else [replace(client, moment=replace(MIDWAY, round=number)) for number in (0, 1)]
    )
    # Batches of the same rows in another order may differ by nothing, or by a rounding error.
    other = next(each for each in others if not shuffle or rows(each) != rows(client))
    one, another = client_round(ALGORITHMS[name], [client, other], run_phase)
    assert not same(one.tensors, another.tensors)


@every_algorithm
def test_test_data_do_not_reach_training(name: str) -> None:
    tested = torch.cat([roles["test"] for roles in DATA.roles])
    inputs, targets = DATA.samples.inputs.clone(), DATA.samples.targets.clone()
    inputs[tested] = 100.0
    targets[tested] = (targets[tested] + 1) % DATA.classes
    result = run(ALGORITHMS[name], data=replace(DATA, samples=Samples(inputs, targets)))
    assert same_result(result, two_rounds(name))
    assert result.select() != two_rounds(name).select()


@every_algorithm
def test_no_client_holds_a_test_sample(name: str) -> None:
    """Every client that the simulation hands to a method: no public attribute, nor the memory beneath its tensor.

    Samples of all clients share one storage, so this says what a method can see without reaching into privates; that
    none does is what `test_test_data_do_not_reach_training` says.
    """
    algorithm, seen = ALGORITHMS[name], list[Client]()

    def watched(tensors: Tensors, client: Client) -> Tensors:
        seen.append(client)
        return algorithm.start(tensors, client)

    torch.use_deterministic_algorithms(True)  # Memory that nobody wrote is then not-a-number; it may hold anything.
    try:
        run(replace(algorithm, start=watched, finetune=()), rounds=1)
    finally:
        torch.use_deterministic_algorithms(False)
    secret = {tuple(row) for number in range(len(DATA)) for row in DATA[number].test.inputs.tolist()}
    width = DATA.samples.inputs.shape[1]
    assert seen
    for client in seen:
        assert {field.name for field in fields(client)}.isdisjoint({"test", "data", "federation"})
        for tensor in tensors_in(client):
            if tensor.dtype == DATA.samples.inputs.dtype:
                memory = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())
                rows = memory[: len(memory) // width * width].reshape(-1, width).tolist()
                assert not memory.isnan().any()
                assert secret.isdisjoint(map(tuple, rows))


@every_algorithm
def test_evaluation_moves_nothing(name: str) -> None:
    algorithm = ALGORITHMS[name]
    for client in clients_midway(name):
        tensors = begin(algorithm, client)
        before = snapshot(tensors, client)
        once, again = (measure(algorithm, client, tensors, client.validation, batch=3) for _ in range(2))
        client.task.accuracy(client.task.weights, client.validation)
        assert once == again
        assert same_list(snapshot(tensors, client), before)


@pytest.mark.parametrize("kind", SERVER_OPTIMIZERS)
def test_running_statistics_are_averaged_whatever_the_optimizer_of_the_server(kind: str) -> None:
    """A server's optimizer acts on what has a gradient. Statistics are means; a step past them may be no variance."""
    name = f"fedavg server {kind}"
    algorithm, clients, server = ALGORITHMS[name], clients_midway(name), server_midway(name)
    updates = [trained.update for trained in client_round(algorithm, clients, run_phase)]
    state = server_round(algorithm, two_rounds(name).state, updates, MIDWAY, server, run_phase)
    total = sum(update.samples for update in updates)
    for statistic in ("norm1.running_mean", "norm1.running_var"):
        terms = [update.values[statistic] * (update.samples / total) for update in updates]
        torch.testing.assert_close(state[statistic], torch.stack(terms).sum(0), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", registry.names("algorithms"))
def test_file_function_and_name_agree(name: str) -> None:
    function = getattr(importlib.import_module(f"partita.algorithms.{name}"), name)
    assert registry.get("algorithms", name) is function
    assert function.__name__ == name
    for argument in inspect.signature(function).parameters.values():
        assert argument.kind is inspect.Parameter.KEYWORD_ONLY
        assert argument.default is not inspect.Parameter.empty
    summary, *rest = (inspect.getdoc(function) or "").splitlines()
    assert summary.endswith(".")
    assert not rest or not rest[0], "the docstring begins with one line that stands alone"
    assert registry.summary(function) == summary
    made = function()
    assert isinstance(made, Algorithm)
    assert made.name.startswith(name)
