"""Answers given together are those of each client's model alone: for every method, and where nothing can be shared."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from laws.methods import ALGORITHMS
from partita import registry
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedper import fedper
from partita.algorithms.fedsim import fedsim
from partita.core.algorithm import Algorithm
from partita.core.selectors import where
from partita.data.federation import Federation
from partita.evaluation.prediction.inputs import Inputs
from partita.evaluation.prediction.model import About, ClientModel
from partita.experiment.result import Result
from partita.experiment.simulate import simulate
from partita.serving.separation import Separation
from partita.web.batches import Inquiry, answers
from partita.web.held import Held, Shared, held
from partita.web.served import Served
from toys import small_federation, small_network


class Simulated:
    """The models of a simulation, as those of a run are served."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.clients: Sequence[str] = [result.data.name_of(each) for each in range(len(result.data))]
        self.inputs = Inputs.of(result.data)

    def model(self, client: str, *, guarded: bool = True) -> ClientModel:
        return self.result.model(client)

    def global_model(self) -> ClientModel:
        return self.result.global_model()


def simulated(algorithm: Algorithm, data: Federation | None = None, network: nn.Module | None = None) -> Simulated:
    return Simulated(simulate(algorithm, network or small_network(), data or small_federation(), rounds=1, on="inline"))


def together(served: Served, models: Simulated) -> tuple[list[Held], list[Tensor], list[Tensor]]:
    """Every client with rows of its own, answered in one batch; and the same from each client's own module."""
    draw = torch.Generator().manual_seed(1)
    parts = [served.load(client) for client in models.clients]
    rows = [torch.randn(1 + at % 3, 4, generator=draw, dtype=torch.float64) for at in range(len(parts))]
    found = answers(list(map(Inquiry, parts, rows)), served.shared, served.common, served.inputs.kind)
    wanted = [models.model(client).outputs(row) for client, row in zip(models.clients, rows, strict=True)]
    return parts, found, wanted


@pytest.mark.filterwarnings("ignore::partita.DegenerateWarning")
@pytest.mark.parametrize("name", registry.names("algorithms"))
def test_every_method_answers_together_as_alone(name: str) -> None:
    models = simulated(ALGORITHMS[name])
    _, found, wanted = together(Served(models), models)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_a_head_goes_the_fast_way_and_is_all_that_is_held() -> None:
    models = simulated(fedper())
    parts, _, _ = together(Served(models), models)
    assert [each.own.route for each in parts] == ["shared", "head", "head", "head"]
    assert {each.bytes for each in parts[1:]} == {(5 * 3 + 3) * 8}


def test_the_body_is_passed_once_for_all_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    models = simulated(fedper())
    served = Served(models)
    parts = [served.load(client) for client in models.clients[1:]]
    passes: list[int] = []
    plain = Separation.features

    def counted(self: Separation, inputs: Tensor) -> Tensor:
        passes.append(len(inputs))
        return plain(self, inputs)

    monkeypatch.setattr(Separation, "features", counted)
    answers([Inquiry(each, served.inputs.example(2)) for each in parts], served.shared, served.common, "classification")
    assert passes == [6]


def test_what_all_have_is_held_by_nobody() -> None:
    models = simulated(fedavg())
    parts, _, _ = together(Served(models), models)
    assert [(each.own.route, each.bytes) for each in parts] == [("shared", 0)] * 4


def test_another_personal_part_is_held_as_tensors() -> None:
    models = simulated(fedper(blocks=2))
    parts, found, wanted = together(Served(models), models)
    assert {each.own.route for each in parts[1:]} == {"part"}
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_clients_with_other_numbers_of_labels_answer_together() -> None:
    data = small_federation((30, 30, 30), classes=3)
    sets = [torch.tensor([0, 1]), torch.tensor([0, 1, 2]), torch.tensor([0, 2])]
    keep = [torch.isin(data.samples.targets, each) for each in sets]
    roles = [{role: rows[kept[rows]] for role, rows in own.items()} for own, kept in zip(data.roles, keep, strict=True)]
    data = replace(data, roles=roles, label_sets=sets)

    def network(classes: int) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, classes)).double()

    models = Simulated(simulate(fedper(), network, data, rounds=1, on="inline"))
    parts, found, wanted = together(Served(models), models)
    assert [each.own.route for each in parts] == ["shared", "head", "head"]
    assert [one.shape[1] for one in found] == [2, 3, 2]
    assert [each.classes for each in parts] == [("0", "1"), ("0", "1", "2"), ("0", "2")]
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


class WithCompany(nn.Module):
    """What it says of a row depends on the rows beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 5)
        self.head = nn.Linear(5, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        features = self.body(inputs)
        answer: Tensor = self.head(features - features.mean(0))
        return answer


def test_where_company_matters_everybody_answers_alone() -> None:
    models = simulated(fedper(), network=WithCompany().double())
    parts, found, wanted = together(Served(models), models)
    assert all(each.whole is not None for each in parts)
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("weight", [0.0, 0.25, 1.0])
def test_what_the_guard_mixes_is_mixed_together(weight: float) -> None:
    """The same numbers as the mixture in the client's own module; the global network is held once."""
    models = simulated(fedper())
    common = simulated(fedavg()).global_model()
    inputs = models.inputs.example(3)
    guarded = [
        ClientModel(
            (own := models.model(client)).network,
            About(client, number, "fedper", "before_local", weight),
            models.inputs,
            own.classes,
            common.network if weight < 1 else None,
        )
        for number, client in enumerate(models.clients)
    ]
    shared, whole = Shared(models.model("0")), Shared(common)
    parts = [held(each, shared, whole) for each in guarded]
    assert all(each.whole is None and each.weight == weight for each in parts)
    found = answers([Inquiry(each, inputs) for each in parts], shared, whole, "classification")
    for one, model in zip(found, guarded, strict=True):
        torch.testing.assert_close(one, model.outputs(inputs), rtol=1e-9, atol=1e-9)


def test_a_mixture_with_another_network_than_the_global_one_stays_whole() -> None:
    models = simulated(fedper())
    own, other = models.model("1"), simulated(fedavg())
    about = About("1", 1, "fedper", "before_local", 0.5)
    mixed = ClientModel(own.network, about, models.inputs, own.classes, models.model("2").network)
    assert held(mixed, Shared(models.model("0")), Shared(other.global_model())).whole is mixed


def test_a_head_by_hand() -> None:
    """Two clients with two labels, one row each, and one with a label more and two rows."""
    separation = Separation(nn.Identity(), "w", "b")
    heads = [
        (torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([0.5, 0.0])),
        (torch.tensor([[0.0, 1.0], [3.0, 0.0]]), torch.tensor([0.0, 1.0])),
        (torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]), torch.tensor([0.0, 0.0, 9.0])),
    ]
    features = [torch.tensor([[1.0, 2.0]]), torch.tensor([[4.0, 5.0]]), torch.tensor([[1.0, 1.0], [2.0, 3.0]])]
    found = separation.outputs(features, heads)
    assert [each.tolist() for each in found] == [[[1.5, 4.0]], [[5.0, 13.0]], [[2.0, 1.0, 10.0], [5.0, 2.0, 12.0]]]


def test_personal_part_of_a_layer_in_the_middle_is_not_a_head() -> None:
    models = simulated(fedsim(personal=where("layer2.*")))
    parts, _, _ = together(Served(models), models)
    assert {each.own.route for each in parts[1:]} == {"part"}
