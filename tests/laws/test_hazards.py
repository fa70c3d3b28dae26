"""Mistakes found in published code, one test each (numbers H1 to H16 of the specification, section 10).

One file, since it follows one list.
"""

import random
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from partita.algorithms.ditto import ditto
from partita.algorithms.fedalt import fedalt
from partita.algorithms.fedamp import fedamp
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedbabu import fedbabu
from partita.algorithms.fedbn import fedbn
from partita.algorithms.fedcp import fedcp
from partita.algorithms.fedper import fedper
from partita.algorithms.fedprox import fedprox
from partita.algorithms.fedrep import fedrep
from partita.algorithms.flayer import flayer
from partita.algorithms.local import local
from partita.algorithms.scaffold import scaffold
from partita.core.algorithm import Algorithm, begin, client_round, enter
from partita.core.batching import Batching
from partita.core.client import Client
from partita.core.network import Network
from partita.core.objectives import SPECIAL, UNKNOWN
from partita.core.optimizers import SGD, Optimizer, adam, yogi
from partita.core.phases import Phase
from partita.core.schedules import Schedule
from partita.core.selectors import NOTHING
from partita.core.server import Update
from partita.core.task import Buffers, Task
from partita.data.federation import Federation, federate
from partita.data.sources.digits import digits
from partita.data.split import Split
from partita.data.splits.dirichlet import dirichlet
from partita.data.splits.iid import iid
from partita.data.text import text_pool
from partita.engine.reference import run_phase
from partita.errors import DegenerateWarning
from partita.evaluation.scores import summarize
from partita.experiment.result import Result
from partita.experiment.samplers import Fraction
from partita.experiment.simulate import simulate
from partita.randomness import Moment
from partita.servers.averaging import averaging
from partita.tensors import Tensors
from toys import scalar_client, scalar_task, small_federation, small_network

DATA = small_federation((6, 5, 9, 7))
BATCHING = Batching(3)


def run(
    algorithm: Algorithm,
    *,
    rounds: int = 2,
    participation: float = 1.0,
    evaluate_every: int = 10,
    evaluation_batch: int = 512,
    oracle_validation: bool = False,
    buffers: Buffers = "follow",
) -> Result:
    return simulate(
        algorithm,
        small_network(),
        DATA,
        rounds=rounds,
        participation=participation,
        batching=BATCHING,
        evaluate_every=evaluate_every,
        evaluation_batch=evaluation_batch,
        oracle_validation=oracle_validation,
        buffers=buffers,
    )


def client_of(task: Task, number: int = 0, *, batch: int = 3) -> Client:
    """A client before its first round, with the initial weights as received."""
    data = DATA[number]
    return Client(number, task, data.train, data.validation, Moment(), Batching(batch), received=dict(task.weights))


def cloned(tensors: Tensors) -> Tensors:
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def same(one: Tensors, other: Tensors) -> bool:
    """To the bit, name by name."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def memory_of(tensors: Iterable[Tensor]) -> set[int]:
    return {tensor.untyped_storage().data_ptr() for tensor in tensors}


def test_h01_states_do_not_alias_live_tensors() -> None:
    """Neither the module that was given, nor a later run, nor another client reaches into a state."""
    module = small_network()
    given = cloned(module.state_dict())
    first = simulate(fedbn(), module, DATA, rounds=1, batching=BATCHING)
    assert same(module.state_dict(), given)
    state, own = cloned(first.state), {client: cloned(kept) for client, kept in first.own.items()}
    later = simulate(fedbn(), module, DATA, rounds=1, batching=BATCHING, weights=first.network_weights())
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(1.0)
    assert same(first.state, state)
    assert all(same(first.own[client], own[client]) for client in own)
    statistics = [[kept[name] for name in kept if "running" in name] for kept in (*first.own.values(), later.own[0])]
    assert all(memory_of(one).isdisjoint(memory_of(other)) for one, other in combinations(statistics, 2))


@pytest.mark.parametrize(
    "algorithm",
    [flayer(), flayer(variant="official"), flayer(dilute=True), fedcp(), scaffold()],
    ids=["paper", "official", "dilute", "fedcp", "scaffold"],
)
def test_h02_uploading_does_not_change_the_client(algorithm: Algorithm) -> None:
    def watched(before: Tensors, after: Tensors, client: Client) -> tuple[Tensors, Tensors | None]:
        copies = cloned(before), cloned(after)
        uploaded = algorithm.upload(before, after, client)
        assert same(before, copies[0])
        assert same(after, copies[1])
        return uploaded

    [trained] = client_round(replace(algorithm, upload=watched), [client_of(Task(small_network()))], run_phase)
    assert all(torch.equal(trained.tensors[name], tensor) for name, tensor in trained.own.items())


def test_h02_masked_entries_stay_on_the_client() -> None:
    [trained] = client_round(flayer(dilute=True), [client_of(Task(small_network()))], run_phase)
    assert (trained.update.values["layer1.weight"] == 0).any()
    assert (trained.tensors["layer1.weight"] != 0).all()


@dataclass(frozen=True)
class Watched:
    """SGD that notes which tensors it is given."""

    base: SGD
    seen: set[str]

    @property
    def lr(self) -> float:
        return self.base.lr

    def init(self, params: Tensors) -> Tensors:
        self.seen.update(params)
        return self.base.init(params)

    def update(
        self, params: Tensors, gradients: Tensors, state: Tensors, moment: Moment, network: Network
    ) -> tuple[Tensors, Tensors]:
        self.seen.update(params, gradients, (name.partition("/")[2] for name in state))
        return self.base.update(params, gradients, state, moment, network)


def test_h03_an_optimizer_never_sees_what_is_frozen() -> None:
    """No rate of 0, no momentum that fills up unseen, and no decay."""
    seen: list[set[str]] = []

    def watch(phase: Phase) -> Phase:
        seen.append(set())
        return replace(phase, optimizer=Watched(SGD(0.1, momentum=0.9, weight_decay=0.1), seen[-1]))

    separate = fedrep(head_epochs=1)
    phases = tuple(watch(stage) for stage in separate.phases if isinstance(stage, Phase))
    run(replace(separate, phases=phases), rounds=1)
    body = {"layer1.weight", "layer1.bias", "norm1.weight", "norm1.bias", "layer2.weight", "layer2.bias"}
    assert seen == [{"head.weight", "head.bias"}, body]


def test_h03_fedbabus_head_stays_as_drawn() -> None:
    result = run(fedbabu(epochs=2, optimizer=SGD(0.1, momentum=0.9, weight_decay=0.1)))
    drawn = small_network().state_dict()
    for name in ("head.weight", "head.bias"):
        assert name not in result.state
        assert torch.equal(result.network_weights()[name], drawn[name])


def test_h04_clipping_knows_no_stale_gradient() -> None:
    """Head, then body, each clipped by the norm of its own fresh gradient; in plain torch beside it."""
    largest, task = 0.05, Task(small_network(norm=False))
    client = client_of(task, batch=100)
    optimizer = SGD(0.1, clip=largest)
    [trained] = client_round(fedalt(personal_epochs=2, epochs=2, optimizer=optimizer), [client], run_phase)
    module = small_network(norm=False)
    for part in ("head", "layer"):
        chosen = [parameter for name, parameter in module.named_parameters() if name.startswith(part)]
        for _ in range(2):
            loss = F.cross_entropy(module(client.train.inputs), client.train.targets)
            gradients = torch.autograd.grad(loss, chosen)
            norm = float(torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt())
            assert norm > largest, "nothing to clip"
            with torch.no_grad():
                for parameter, gradient in zip(chosen, gradients, strict=True):
                    parameter.sub_(0.1 * gradient * largest / (norm + 1e-6))
    torch.testing.assert_close(trained.tensors, dict(module.state_dict()), rtol=0, atol=1e-12)


@pytest.mark.parametrize("distance", [1.0, 2.0])
@pytest.mark.parametrize(
    ("algorithm", "name", "strength"),
    [
        (ditto(strength=0.75), "personal/w", 0.75),
        (fedamp(strength=3.0, alpha=2.0), "w", 1.5),
    ],
    ids=["ditto", "fedamp"],
)
def test_h05_a_pull_grows_with_the_distance(algorithm: Algorithm, name: str, strength: float, distance: float) -> None:
    """The loss is at its minimum, so that a step is the penalty's alone: rate * strength * distance."""
    client = scalar_client(scalar_task(w=0.0), target=0.0)
    centre = {"w": torch.tensor(distance, dtype=torch.float64)}
    [trained] = client_round(algorithm, [replace(client, received=centre)], run_phase)
    assert trained.tensors[name].item() == pytest.approx(0.1 * strength * distance, abs=1e-12)


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_h05_fedprox_pulls_with_the_live_weights(mu: float) -> None:
    """From 0 towards 1: the first step is 0.1, the second 0.09 less a tenth of mu times 0.1."""
    task = scalar_task(w=0.0)
    client = replace(scalar_client(task, target=1.0, count=2), received=task.weights)
    [trained] = client_round(fedprox(mu=mu), [client], run_phase)
    assert trained.tensors["w"].item() == pytest.approx(0.19 - 0.01 * mu, abs=1e-12)


def test_h06_the_centre_is_what_was_received() -> None:
    """However far Ditto's global network travels in a round, the personal one is the same."""
    short, long = (run(ditto(epochs=epochs), rounds=1) for epochs in (1, 4))
    assert not same(short.state, long.state)
    assert all(same(short.own[client], long.own[client]) for client in range(len(DATA)))


def test_h07_personal_state_is_written_back() -> None:
    result = run(fedper(), rounds=1)
    initial = small_network().state_dict()
    for number in range(len(DATA)):
        own = result.own[number]
        client = replace(client_of(result.task, number), own=own, received=result.state)
        started = begin(result.algorithm, enter(result.algorithm, client))
        for name in ("head.weight", "head.bias"):
            assert not torch.equal(own[name], initial[name])
            assert torch.equal(started[name], own[name])
    forgetful, faithful = ([run(fedper(stateful=s), rounds=n).state for n in (1, 2)] for s in (False, True))
    assert same(forgetful[0], faithful[0])
    assert not same(forgetful[1], faithful[1])


def test_h08_every_client_is_evaluated_with_its_own_model_and_data() -> None:
    """Local training, so that no two clients have the same model."""
    result = run(local(), participation=0.5)
    absent = set(range(len(DATA))) - result.own.keys()
    assert len(absent) == 1
    for record in result.select():
        module = small_network().eval()
        module.load_state_dict(result.own.get(record.client, {}) or module.state_dict())
        test = DATA[record.client].test
        with torch.no_grad():
            loss = F.cross_entropy(module(test.inputs), test.targets, reduction="sum")
        assert record.loss == pytest.approx(float(loss), abs=1e-12)
    assert len({record.loss for record in result.select()}) == len(DATA)


def test_h09_fine_tuning_begins_with_the_last_download() -> None:
    """With a learning rate of 0 it also ends there, for those too who took part in the last round."""
    result = run(fedbabu(epochs=1, finetune_epochs=1, finetune_optimizer=SGD(0.0)), buffers="batch")
    before, tuned, trained = (result.select(model) for model in ("before_local", "after_finetune", "after_local"))
    assert len(tuned) == len(DATA)
    assert [record.loss for record in tuned] == [record.loss for record in before]
    assert all(ours.loss != theirs.loss for ours, theirs in zip(tuned, trained, strict=True))


def rows_of(federation: Federation) -> list[list[int]]:
    """Every client's rows, role by role."""
    return [rows.tolist() for client in federation.roles for rows in client.values()]


def test_h10_nothing_random_comes_from_a_global_generator() -> None:
    """Partition and run depend on their seed alone, and leave the global generators where they were."""

    def divided(seed: int) -> list[list[int]]:
        return rows_of(federate(digits(), dirichlet(clients=4), newcomers=1, seed=seed))

    def everything(unrelated: int) -> tuple[list[list[int]], Result]:
        random.seed(unrelated)
        np.random.seed(unrelated)
        torch.manual_seed(unrelated)
        before = random.getstate(), np.random.get_state(legacy=False), torch.get_rng_state()
        outcome = divided(5), run(fedper(personal_init="independent"), participation=0.5)
        assert random.getstate() == before[0]
        assert str(np.random.get_state(legacy=False)) == str(before[1])
        assert torch.equal(torch.get_rng_state(), before[2])
        return outcome

    (rows, result), (other_rows, other_result) = everything(1), everything(2)
    assert rows == other_rows != divided(6)
    assert same(result.state, other_result.state)
    assert result.records == other_result.records


@pytest.mark.parametrize("split", [iid(), dirichlet()], ids=lambda split: str(split.name))
def test_h11_no_sample_has_two_roles(split: Split) -> None:
    federation = federate(digits(), split)
    rows = rows_of(federation)
    assert all(rows)
    assert sorted(row for part in rows for row in part) == list(range(len(digits())))


def test_h11_the_reader_of_text_tells_training_from_test() -> None:
    """Every text is a word of its own, so that the words that are known tell which texts were read for training."""
    tested = np.arange(60) % 3 == 0
    texts = text_pool("words", [f"w{row}" for row in range(60)], np.arange(60) % 2, official_test=tested)
    federation = federate(texts, iid(clients=3), length=1)
    for client in federation.roles:
        assert tested[client["test"]].all()
        assert not tested[torch.cat([client["train"], client["validation"]])].any()
    assert federation.facts["vocabulary"] == SPECIAL + sum(federation.sizes)
    for number in range(3):
        data = federation[number]
        assert (data.test.inputs == UNKNOWN).all()
        assert (data.train.inputs >= SPECIAL).all()


@pytest.mark.parametrize("oracle", [False, True])
def test_h12_what_is_chosen_on_test_data_says_so(oracle: bool) -> None:
    """FLAYER's accuracy is that on validation data, or on test data if the protocol says so."""
    result = run(flayer(), oracle_validation=oracle)
    assert result.setup.experiment.oracle_validation is oracle
    noted = [float(result.own[client]["flayer/accuracy"]) for client in range(len(DATA))]
    on_validation, on_test = (
        [record.score for record in result.select("after_local", role=role)] for role in ("validation", "test")
    )
    assert noted == pytest.approx(on_test if oracle else on_validation)
    assert on_validation != on_test


def test_h12_the_last_round_is_reported_not_the_best() -> None:
    """A run that unlearns in its last round."""
    unlearn = Schedule("unlearn at last", lambda number, rounds: -1.0 if number == rounds - 1 else 1.0)
    result = run(fedavg(epochs=5, optimizer=SGD(0.1, schedule=unlearn)), rounds=3, evaluate_every=1)
    rounds = [summarize(result.select(round=number)) for number in (1, 2, 3)]
    assert result.score() == rounds[-1]
    assert result.score().micro < max(summary.micro for summary in rounds)


@pytest.mark.parametrize("optimizer", [SGD(1.0), SGD(1.0, momentum=0.9), adam(0.1), yogi(0.1)], ids=str)
def test_h13_averaging_equal_tensors_keeps_their_bits(optimizer: Optimizer) -> None:
    """A sum of equal copies divided by their number does not."""
    value = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    naive = torch.zeros_like(value)
    for _ in range(10):
        naive = naive + value
    assert not torch.equal(naive / 10, value)
    server, network = averaging(optimizer=optimizer), Task(small_network()).network
    state = server.init({"w": value}, [1] * 10)
    updates = [Update(client, {"w": value.clone()}, samples=7 * client + 1, batches=1) for client in range(10)]
    for number in range(3):
        state = server.aggregate(state, updates, Moment(round=number), network)
    assert torch.equal(state["w"], value)


def test_h13_what_is_frozen_is_not_sent() -> None:
    [trained] = client_round(fedbabu(epochs=1), [client_of(Task(small_network()))], run_phase)
    assert not {name for name in trained.update.values if name.startswith("head")}


def test_h14_a_phase_without_parameters_is_skipped() -> None:
    """And takes no random numbers with it: FedAlt without a personal part is FedAvg to the bit."""
    with pytest.warns(DegenerateWarning, match="nothing is personal"):
        result = run(fedalt(personal=NOTHING))
    assert same(result.state, run(fedavg()).state)
    tensors = cloned(result.task.weights)
    [after] = run_phase(Phase(NOTHING, SGD(0.1)), [client_of(result.task)], [tensors])
    assert same(after, result.task.weights)


@pytest.mark.parametrize(
    ("count", "fraction", "expected"),
    [(100, 0.29, 29), (100, 0.57, 57), (100, 0.1, 10), (5, 0.6, 3), (10, 0.05, 1), (10, 0.39, 3), (7, 1.0, 7)],
)
def test_h15_a_fraction_of_clients_is_not_rounded_away(count: int, fraction: float, expected: int) -> None:
    chosen = Fraction(fraction)(count, Moment())
    assert len(chosen) == len(set(chosen)) == expected
    assert set(chosen) <= set(range(count))


def test_h16_statistics_of_the_batch_make_its_size_part_of_the_protocol() -> None:
    """The order of test samples is fixed, the size of their batches is recorded."""
    small, again, large = (run(fedavg(), buffers="batch", evaluation_batch=size) for size in (2, 2, 6))
    assert small.records == again.records
    assert [result.setup.experiment.evaluation_batch for result in (small, large)] == [2, 6]
    assert {result.setup.experiment.buffers for result in (small, large)} == {"batch"}
    assert same(small.state, large.state)
    assert all(a.loss != b.loss for a, b in zip(small.select(), large.select(), strict=True))


def test_h16_with_running_statistics_the_size_does_not_matter() -> None:
    small, large = (run(fedavg(), evaluation_batch=size) for size in (2, 6))
    for one, other in zip(small.select(), large.select(), strict=True):
        assert one.loss == pytest.approx(other.loss, abs=1e-12)
        assert one.correct == other.correct
