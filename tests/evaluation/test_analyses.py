"""The evaluations of the papers, by hand on networks of a few numbers.

One file, since all analyses are tried on the same networks of a few numbers.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from partita.algorithms.ditto import ditto
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedcp import fedcp
from partita.algorithms.finetune import finetune
from partita.algorithms.local import local
from partita.core.algorithm import Algorithm, RunPhase, enter
from partita.core.batching import Batching
from partita.core.client import Client
from partita.core.objectives import regression, squared_error
from partita.core.optimizers import SGD
from partita.core.penalties import Proximal
from partita.core.phases import Phase
from partita.core.samples import Samples
from partita.core.schedules import exponential
from partita.core.selectors import HEAD, NETWORK
from partita.core.task import Task
from partita.data.federation import Federation
from partita.data.split import Role
from partita.engine import reference
from partita.engine.fast import FastEngine
from partita.errors import PartitaError
from partita.evaluation.analyses._common import common_test
from partita.evaluation.analyses.embedding import embedding
from partita.evaluation.analyses.finetuning import Tuning, after_each_epoch, finetuning, tuning_of
from partita.evaluation.analyses.inside_outside import inside_outside
from partita.evaluation.analyses.similarity import similarity
from partita.evaluation.analyses.training import training
from partita.evaluation.analyses.without_head import without_head
from partita.evaluation.analysis import Result
from partita.evaluation.population import ClientModels, Population
from partita.tensors import Tensors
from toys import Scalars, repeated, small_federation, small_network

NOTHING = Samples(torch.zeros(0, 2), torch.zeros(0, dtype=torch.int64))


def models(
    number: int,
    task: Task,
    train: Samples,
    test: Samples,
    *,
    algorithm: Algorithm | None = None,
    own: Tensors | None = None,
    engine: RunPhase = reference.run_phase,
    **more: Any,
) -> ClientModels:
    algorithm = algorithm or local()
    client = Client(number, task, train, train.take(slice(0)), batching=Batching(size=1), own=own or {})
    return ClientModels(algorithm, enter(algorithm, client), test, engine, **more)


def population(*clients: ClientModels, common: Samples | None = None, **changes: Any) -> Population:
    """These clients, all of which train; `common` are the test samples of all together."""
    samples = common or small_federation().samples
    rows = torch.arange(len(samples))
    held: dict[Role, Tensor] = {"train": rows[:0], "validation": rows[:0], "test": rows}
    data = Federation(samples, [held], classes=int(samples.targets.max()) + 1, name="toy")
    known = {each.client.id: each for each in clients}
    first = clients[0]
    return Population(first.algorithm, replace(data, **changes), first.client.task, known.__getitem__, tuple(known))


def numbers_task() -> Task:
    """u + v is the answer, v is the head; the loss is half the squared error, and what is measured its root mean."""
    return Task(
        Scalars(u=0.0, v=0.0),
        loss=lambda outputs, targets: squared_error(outputs, targets) / 2,
        measure=regression,
        groups={"head": "v"},
    )


def target(value: float) -> Samples:
    return repeated(value)


def features_task(classes: int = 3, bias: tuple[float, ...] = (0.0, 0.0, 0.0)) -> Task:
    """A body that hands its two inputs on, and a head that answers by its bias alone."""
    net = nn.Sequential()
    net.add_module("body", nn.Linear(2, 2, bias=False))
    net.add_module("head", nn.Linear(2, classes))
    task = Task(net)
    task.weights |= {
        "body.weight": torch.eye(2),
        "head.weight": torch.zeros(classes, 2),
        "head.bias": torch.tensor(bias[:classes]),
    }
    return task


def points(*rows: tuple[float, float, int]) -> Samples:
    return Samples(torch.tensor([row[:2] for row in rows], dtype=torch.float32), torch.tensor([row[2] for row in rows]))


def tuned(clients: Population, epochs: int, lr: float) -> Result:
    """The curves of fine-tuning by plain SGD."""
    algorithm = finetune(on=clients.algorithm, epochs=epochs, optimizer=SGD(lr))
    return finetuning()(replace(clients, algorithm=algorithm))


def test_finetuning_by_hand() -> None:
    """At a rate of 1/2 one part halves the error with each step, both together end it with the first.

    Errors of 1 and 3 at first: mean 2, deviation 1, together sqrt((1 + 9) / 2).
    """
    clients = [models(number, numbers_task(), target(a), target(a)) for number, a in ((4, 1.0), (9, 3.0))]
    found = tuned(population(*clients), 2, 0.5)
    assert (found["clients"], found["epochs"], found["lr"]) == ([4, 9], [0, 1, 2], 0.5)
    for part in ("head", "body"):
        assert found["parts"][part]["macro"] == pytest.approx([2, 1, 0.5])
        assert found["parts"][part]["std"] == pytest.approx([1, 0.5, 0.25])
        assert found["parts"][part]["micro"] == pytest.approx([5**0.5, 5**0.5 / 2, 5**0.5 / 4])
    assert found["parts"]["full"]["macro"] == pytest.approx([2, 0, 0])
    assert found["parts"]["full"]["validation"] == [None, None, None]


def test_momentum_lasts_over_epochs() -> None:
    """At a rate of 0.1: v is 0.1; then the step is 0.1 (0.9 + 0.9), then 0.1 (1.62 + 0.72)."""
    one = models(0, numbers_task(), target(1.0), target(1.0))
    after = after_each_epoch(one, HEAD, Tuning(3, SGD(0.1, momentum=0.9)))
    assert [float(tensors["v"]) for tensors in after] == pytest.approx([0, 0.1, 0.28, 0.514])
    assert [float(tensors["u"]) for tensors in after] == [0, 0, 0, 0]


def test_finetuning_begins_with_what_the_client_has_and_changes_nothing() -> None:
    own = {"v": torch.tensor(0.5, dtype=torch.float64)}
    one = models(0, numbers_task(), target(1.0), target(1.0), own=own)
    found = tuned(population(one), 1, 1.0)
    assert {part: curve["macro"] for part, curve in found["parts"].items()} == {
        "head": [0.5, 0.0],
        "body": [0.5, 0.0],
        "full": [0.5, 0.5],
    }
    assert float(one.before["v"]) == 0.5
    assert float(one.client.task.weights["v"]) == 0


def test_finetuning_is_of_the_personal_network() -> None:
    """Ditto's is a copy under a prefix; with no samples for a step it stays as it is."""
    copied = models(0, numbers_task(), target(1.0), target(1.0), algorithm=ditto())
    after = after_each_epoch(copied, HEAD, Tuning(1, SGD(1.0)))
    assert [float(tensors["personal/v"]) for tensors in after] == [0, 1]
    assert float(after[1]["v"]) == 0
    client = replace(copied.client, batching=Batching(size=5, drop_last=True))
    idle = after_each_epoch(replace(copied, client=client), HEAD, Tuning(2, SGD(1.0)))
    assert [float(tensors["personal/v"]) for tensors in idle] == [0, 0, 0]


def test_running_statistics_are_of_their_epoch() -> None:
    data = small_federation()
    one = models(0, Task(small_network()), data[0].train, data[0].test)
    one = replace(one, client=replace(one.client, batching=Batching(4)))
    after = after_each_epoch(one, HEAD, Tuning(3, SGD(0.1)))
    counted = [int(tensors["norm1.num_batches_tracked"]) for tensors in after]
    assert counted == [0, 3, 6, 9]
    assert len({float(tensors["norm1.running_mean"][0]) for tensors in after}) == 4


@pytest.mark.parametrize("engine", [reference.run_phase, FastEngine(keep_features=False), FastEngine()])
def test_epochs_are_those_of_one_phase_whatever_the_engine(engine: RunPhase) -> None:
    """With dropout, momentum and a decaying rate: after each epoch as a phase of so many epochs leaves it."""
    net = nn.Sequential(nn.Linear(4, 6), nn.Dropout(0.5), nn.Linear(6, 3)).double()
    data = small_federation()
    one = models(0, Task(net), data[0].train, data[0].test, engine=engine)
    one = replace(one, client=replace(one.client, batching=Batching(4)))
    rate = SGD(0.1, momentum=0.9, schedule=exponential(0.5))
    after = after_each_epoch(one, NETWORK, Tuning(3, rate))
    client = replace(one.client, purpose="finetune")
    for epochs in (1, 2, 3):
        phase = Phase(NETWORK, rate, epochs=epochs)
        [expected] = reference.run_phase(phase, [client], [one.before])
        assert all(torch.equal(after[epochs][name], tensor) for name, tensor in expected.items())


@pytest.mark.parametrize("engine", [reference.run_phase, FastEngine()])
def test_every_epoch_is_seen_once(engine: RunPhase) -> None:
    """Also where a phase ends early, and in a copy that later steps do not change."""
    seen: list[Tensors] = []
    one = models(0, numbers_task(), target(1.0), NOTHING)
    phase = Phase(
        HEAD,
        SGD(0.5),
        epochs=9,
        until=lambda losses: len(losses) == 2,
        on_epoch=lambda tensors, _: seen.append(tensors),
    )
    [last] = engine(phase, [one.client], [one.before])
    assert [float(tensors["v"]) for tensors in seen] == [0.5, 0.75]
    assert float(last["v"]) == 0.75


def test_the_experiments_own_engine_fine_tunes() -> None:
    """Both for the model that is used and for the curves."""
    seen: list[str] = []

    def engine(phase: Phase, clients: Sequence[Client], tensors: Sequence[Tensors]) -> list[Tensors]:
        seen.append(str(phase.train))
        return reference.run_phase(phase, clients, tensors)

    algorithm = finetune(on=local(), epochs=1, optimizer=SGD(1.0))
    one = models(0, numbers_task(), target(1.0), target(1.0), algorithm=algorithm, engine=engine)
    assert float(one.used["v"]) == 1.0
    assert len(seen) == 1
    finetuning()(population(one))
    assert len(seen) == 4


def test_a_network_without_a_body_and_a_method_without_parts() -> None:
    task = Task(nn.Sequential(nn.Linear(2, 3)))
    one = models(0, task, points((1, 0, 0)), points((1, 0, 0)))
    assert list(finetuning(epochs=1)(population(one))["parts"]) == ["head", "full"]
    with pytest.raises(PartitaError, match="finetuning does not apply: fedcp predicts by more"):
        finetuning(epochs=1)(population(models(0, features_task(), NOTHING, NOTHING, algorithm=fedcp())))
    with pytest.raises(PartitaError, match="at least 1"):
        finetuning(epochs=0)(population(one))


def test_a_method_is_tuned_as_it_says() -> None:
    assert tuning_of(fedavg()) == Tuning(5, SGD(0.001, momentum=0.9))
    near = Proximal(0.1)
    own = finetune(on=fedavg(), epochs=3, optimizer=SGD(0.2), penalty=near)
    assert tuning_of(own) == Tuning(3, SGD(0.2), near)
    assert tuning_of(own, epochs=7, lr=0.5) == Tuning(7, SGD(0.5, momentum=0.9), near)


def test_accuracy_without_the_head_by_hand() -> None:
    """G-23's query of class 0 is right by cosine alone, that of class 2 by both; class 1 has no template.

    The second client has one class and one sample of it, right by both; the third has no test samples. The head itself
    says 0: right once.
    """
    task = features_task(bias=(1.0, 0.0, 0.0))
    clients = [
        models(0, task, points((9, 0, 0), (11, 0, 0), (1, 1, 2)), points((2, 0.5, 0), (1, 1.2, 2), (0, 3, 1))),
        models(1, task, points((1, 0, 1)), points((5, 5, 1))),
        models(2, task, points((1, 0, 1)), NOTHING),
    ]
    found = without_head()(population(*clients))
    assert found["clients"] == [0, 1]
    for name, macro, micro in (("cosine", 5 / 6, 3 / 4), ("euclidean", 2 / 3, 1 / 2), ("with_head", 1 / 6, 1 / 4)):
        assert found[name]["macro"] == pytest.approx(macro)
        assert found[name]["micro"] == pytest.approx(micro)
        assert found[name]["clients"] == 2


def test_scores_on_training_samples_by_hand() -> None:
    """Each starts at 0, and two steps of the head at a rate of 1/2 leave a quarter of its error on what it trained on.

    On the test samples, whose answer is another, the error would be 1/4 too, but of the other sign: they are not asked.
    """
    clients = [models(number, numbers_task(), target(a), target(a / 2)) for number, a in ((4, 1.0), (9, 3.0))]
    algorithm = finetune(on=local(), part=HEAD, epochs=2, optimizer=SGD(0.5))
    found = training()(population(*(replace(each, algorithm=algorithm) for each in clients)))
    assert found["clients"] == [4, 9]
    assert found["scores"] == {"before_local": pytest.approx([1, 3]), "used": pytest.approx([0.25, 0.75])}
    assert found["used"]["macro"] == pytest.approx(0.5)
    assert found["before_local"]["macro"] == pytest.approx(2)


def test_inside_and_outside_by_hand() -> None:
    """The answer is always 0. The first client trained on 0 and 1: right for 2 of 3 inside, for 0 of 1 outside.

    The second, on all: 2 of 4. The third, on 2 alone: 0 of 1 inside, 2 of 3 outside.
    """
    common = points((0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 0, 0))
    task = features_task(bias=(1.0, 0.0, 0.0))
    trained = ((0, 1), (0, 1, 2), (2,))
    clients = [
        models(at, task, points(*((0.0, 0.0, label) for label in labels)), NOTHING) for at, labels in enumerate(trained)
    ]
    found = inside_outside()(population(*clients, common=common))
    assert (found["clients"], found["samples"], found["before_local"]) == ([0, 1, 2], 4, None)
    assert found["inside"]["macro"] == pytest.approx((2 / 3 + 1 / 2 + 0) / 3)
    assert found["inside"]["micro"] == pytest.approx(4 / 8)
    assert found["outside"] == {
        "macro": pytest.approx(1 / 3),
        "std": pytest.approx(1 / 3),
        "micro": pytest.approx(2 / 4),
        "clients": 2,
    }
    assert inside_outside()(population(clients[1], common=common))["outside"] is None


def test_inside_and_outside_before_and_after_finetuning() -> None:
    """One step on a sample of class 1 turns the answer from 0 to 1, for others' samples too."""
    algorithm = finetune(on=local(), epochs=1, optimizer=SGD(1.0))
    one = models(0, features_task(2, (0.0, 0.0)), points((0, 0, 1)), NOTHING, algorithm=algorithm)
    found = inside_outside()(population(one, common=points((0, 0, 0), (0, 0, 1), (0, 0, 1))))
    assert (found["inside"]["macro"], found["outside"]["macro"]) == (1, 0)
    assert (found["before_local"]["inside"]["macro"], found["before_local"]["outside"]["macro"]) == (0, 1)


def test_clients_that_number_their_own_classes_know_no_others() -> None:
    own = torch.tensor([4, 7, 9])
    one = models(0, features_task(), points((0, 0, 0)), NOTHING, classes=own)
    with pytest.raises(PartitaError, match="its own classes"):
        inside_outside()(population(one, common=points((0, 0, 0)), label_sets=[own]))


def weighed(*rows: tuple[float, float]) -> list[ClientModels]:
    """Clients of one layer, each with its own two weights."""
    net = nn.Sequential()
    net.add_module("head", nn.Linear(2, 1, bias=False))
    task = Task(net.double())
    return [
        models(number, task, NOTHING, NOTHING, own={"head.weight": torch.tensor([row], dtype=torch.float64)})
        for number, row in enumerate(rows)
    ]


def probe() -> Samples:
    inputs = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    return Samples(inputs, torch.zeros(3, dtype=torch.int64))


def test_similarity_by_hand() -> None:
    """(3, 4), (4, 3), (-3, -4): cosines 0.96, -1 and -0.96. Outputs (3, 4, 0) and (4, 3, 0): squared correlation
    (23 / 26)^2; and 1 for those that differ in sign alone."""
    found = similarity()(population(*weighed((3, 4), (4, 3), (-3, -4)), common=probe()))
    assert (found["clients"], found["layers"], found["samples"]) == ([0, 1, 2], ["head"], 3)
    assert found["cosine"] == pytest.approx([-1 / 3])
    assert found["cosine_std"] == pytest.approx([0.914671], abs=1e-6)
    assert found["cka"] == pytest.approx([(2 * 529 / 676 + 1) / 3])
    assert found["cka_std"] == pytest.approx([(1 - 529 / 676) * 2**0.5 / 3])
    assert found["matrix"] == [pytest.approx(row) for row in ([1, 0.96, -1], [0.96, 1, -0.96], [-1, -0.96, 1])]


def test_similarity_of_what_does_not_vary_and_of_one() -> None:
    """Weights of 0 point nowhere; a difference of inputs that are all alike is the same for all of them."""
    found = similarity()(population(*weighed((3, 4), (0, 0)), common=probe()))
    assert (found["cosine"], found["cka"], found["cka_std"]) == ([None], [None], [None])
    same = probe().take(torch.tensor([0, 0]))
    alike = similarity()(population(*weighed((3, 4), (4, 3)), common=same))
    assert (alike["cosine"], alike["cka"]) == ([pytest.approx(0.96)], [None])
    with pytest.raises(PartitaError, match="One client alone"):
        similarity()(population(*weighed((3, 4)), common=probe()))


class Uncalled(nn.Module):
    """A layer whose weight is used without a call."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(2, 2, bias=False)
        self.head = nn.Linear(2, 1, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        answer: Tensor = self.head(inputs @ self.body.weight)
        return answer


def test_similarity_of_a_layer_that_is_never_called() -> None:
    task = Task(Uncalled().double())
    found = similarity()(population(*(models(number, task, NOTHING, NOTHING) for number in (0, 1)), common=probe()))
    assert found["layers"] == ["body", "head"]
    assert found["cosine"] == pytest.approx([1, 1])
    assert found["cka"] == [None, pytest.approx(1)]


def test_a_map_of_some_samples_of_every_client() -> None:
    task = features_task()
    near, far = [(0.1 * at, 0.0, 0) for at in range(8)], [(100 + 0.1 * at, 50.0, 1) for at in range(3)]
    clients = [
        models(3, task, NOTHING, points(*near)),
        models(5, task, NOTHING, points(*far), classes=torch.tensor([6, 9])),
        models(6, task, NOTHING, NOTHING),
    ]
    found = embedding(samples=12)(population(*clients))
    assert found["client"] == [3] * 4 + [5] * 3
    assert found["label"] == [0] * 4 + [9] * 3
    places = torch.tensor([found["x"], found["y"]]).T
    assert places.shape == (7, 2)
    assert embedding(samples=12)(population(*clients)) == found


def test_a_map_needs_features_alike_and_somebody() -> None:
    wide = nn.Sequential()
    wide.add_module("body", nn.Linear(2, 4))
    wide.add_module("head", nn.Linear(4, 3))
    clients = [models(at, task, NOTHING, points((0, 0, 0))) for at, task in enumerate((features_task(), Task(wide)))]
    with pytest.raises(PartitaError, match="number of features"):
        embedding(samples=1)(population(*clients))
    with pytest.raises(PartitaError, match="No client"):
        embedding()(population(models(0, features_task(), NOTHING, NOTHING)))


def test_common_samples_are_balanced_and_of_those_who_train() -> None:
    data = replace(small_federation((12, 7, 20, 9)), newcomers=frozenset({2}))
    found = common_test(data, 9)
    trained = torch.cat([data.roles[at]["test"] for at in (0, 1, 3)])
    available = torch.bincount(data.samples.targets[trained], minlength=3)
    assert torch.bincount(found.targets, minlength=3).tolist() == available.clamp(max=3).tolist()
    allowed = {tuple(row) for row in data.samples.inputs[trained].tolist()}
    assert {tuple(row) for row in found.inputs.tolist()} <= allowed
    assert torch.equal(found.inputs, common_test(data, 9).inputs)
    assert torch.bincount(common_test(data, 1).targets, minlength=3).tolist() == [1, 1, 1]
    assert len(common_test(replace(data, kind="regression"), 5)) == 5
