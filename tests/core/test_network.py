"""The structure that is read from a module, and the task that makes it functional."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import pytest
import torch
from torch import Tensor, nn

from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedbn import fedbn
from partita.core.algorithm import Algorithm, client_round, initial_state, kept_names, shared_names
from partita.core.batching import Batching
from partita.core.client import Client
from partita.core.network import Network, network_of
from partita.core.optimizers import SGD
from partita.core.phases import Phase
from partita.core.selectors import HEAD, NETWORK, NORM, Selector, matches
from partita.core.task import Buffers, Task
from partita.data.federation import Federation
from partita.engine.reference import run_phase
from partita.errors import PartitaError
from partita.models.cnn4 import cnn4
from partita.tensors import Tensors
from toys import small_federation, small_network

DATA = small_federation((12, 7))
STATISTICS = {"norm1.running_mean", "norm1.running_var"}
COUNTER = "norm1.num_batches_tracked"


def read(module: nn.Module, groups: Mapping[str, str | tuple[str, ...]] | None = None) -> Network:
    return network_of(module, matches, groups or {})


def client_of(task: Task, data: Federation = DATA) -> Client:
    return Client(0, task, data[0].train, data[0].validation, batching=Batching(4))


class Declared(nn.Module):
    """Says itself what its parts are."""

    groups: object = {"head": "a", "adapter": ("b.weight", "c.bias")}
    blocks: object = ("a", ("b", "c"))

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        answer: Tensor = self.c(self.b(self.a(inputs)))
        return answer


class Tied(nn.Module):
    """The decoder's weight is the encoder's."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(3, 3, bias=False)
        self.decoder = nn.Linear(3, 3)
        self.decoder.weight = self.encoder.weight

    def forward(self, inputs: Tensor) -> Tensor:
        answer: Tensor = self.decoder(self.encoder(inputs))
        return answer


def test_a_norm_belongs_to_the_layer_before_it() -> None:
    network = read(small_network())
    assert [sorted({name.partition(".")[0] for name in unit}) for unit in network.units] == [
        ["layer1", "norm1"],
        ["layer2"],
        ["head"],
    ]
    assert {network.unit_of[name] for name in network.names if "1" in name} == {1}
    assert network.unit_of["head.bias"] == 3
    assert network.blocks == network.units


def test_units_are_found_inside_nested_modules() -> None:
    module = nn.Sequential(
        nn.LayerNorm(4),
        nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.GroupNorm(2, 4)),
        nn.Sequential(nn.Sequential(nn.Linear(4, 2))),
    )
    owners = [sorted({name.rpartition(".")[0] for name in unit}) for unit in read(module).units]
    assert owners == [["0"], ["1.0", "1.1", "1.3"], ["2.0.0"]]


def test_buffers_and_counters_are_told_from_parameters() -> None:
    network = read(small_network())
    assert network.buffers == STATISTICS | {COUNTER}
    assert network.counters == {COUNTER}
    assert set(network.parameters) == set(network.names) - network.buffers
    assert network.has_batch_norm
    assert not read(small_network(norm=False)).has_batch_norm


def test_buffers_that_are_not_saved_are_no_tensors_of_the_network() -> None:
    module = nn.Linear(2, 2)
    module.register_buffer("cache", torch.zeros(3), persistent=False)
    assert read(module).names == ("weight", "bias")


def test_names_keep_the_order_of_the_module() -> None:
    module = small_network()
    network = read(module)
    assert network.names == tuple(module.state_dict())
    assert network.parameters == tuple(name for name, _ in module.named_parameters())


def test_blocks_and_groups_are_declared_by_the_module() -> None:
    network = read(Declared())
    assert network.groups == {"head": ("a.weight", "a.bias"), "adapter": ("b.weight", "c.bias")}
    assert [len(block) for block in network.blocks] == [2, 4]
    assert len(network.units) == 3
    assert [block[0] for block in read(cnn4()).blocks] == ["conv1.weight", "conv2.weight", "fc1.weight", "fc.weight"]


def test_the_task_overrides_groups_one_by_one() -> None:
    groups = Task(Declared(), groups={"head": "c"}).network.groups
    assert groups == {"head": ("c.weight", "c.bias"), "adapter": ("b.weight", "c.bias")}


def test_without_a_declaration_the_head_is_the_last_unit() -> None:
    assert read(small_network()).groups == {"head": ("head.weight", "head.bias")}


def test_a_group_that_matches_nothing_lists_the_names() -> None:
    with pytest.raises(PartitaError, match=r"'clasifier' matches no tensor.*head\.weight"):
        Task(small_network(), groups={"head": "clasifier"})


def test_attributes_that_are_no_declarations_are_left_alone() -> None:
    """torchvision's ResNet has a number named `groups`, and many transformers a list of modules named `blocks`."""

    class Grouped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.groups = 4
            self.blocks = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])

    network = read(Grouped())
    assert set(network.groups) == {"head"}
    assert network.blocks == network.units


def test_blocks_may_be_declared_as_a_list() -> None:
    class Listed(Declared):
        blocks: object = ["a", ("b", "c")]

    assert [len(block) for block in read(Listed()).blocks] == [2, 4]


def test_tied_weights_are_one_tensor() -> None:
    task = Task(Tied())
    assert task.network.names == ("encoder.weight", "decoder.bias")
    weights = {"encoder.weight": 2 * torch.eye(3), "decoder.bias": torch.ones(3)}
    assert torch.equal(task.outputs(weights, torch.eye(3)), 4 * torch.eye(3) + 1)


def test_the_given_module_is_never_changed() -> None:
    module = small_network()
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    task = Task(module, buffers="batch")
    run_phase(Phase(NETWORK, SGD(0.1)), [client_of(task)], [task.weights])
    assert module.state_dict().keys() == before.keys()
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())


def test_batch_statistics_leave_no_buffers_and_are_used_in_evaluation() -> None:
    task = Task(small_network(), buffers="batch")
    assert not task.network.buffers
    assert {"norm1.weight", "norm1.bias"} <= set(task.network.names)
    task.evaluate_()
    inputs = DATA[0].train.inputs
    shifted = task.outputs(task.weights | {"layer1.bias": task.weights["layer1.bias"] + 5}, inputs)
    assert torch.allclose(shifted, task.outputs(task.weights, inputs))


@pytest.mark.parametrize(
    ("algorithm", "buffers", "travelling", "kept"),
    [
        (fedavg(), "follow", STATISTICS, set()),
        (fedavg(), "local", set(), STATISTICS | {COUNTER}),
        (fedavg(), "batch", set(), set()),
        (fedbn(), "follow", set(), STATISTICS | {COUNTER}),
        (fedbn(), "local", set(), STATISTICS | {COUNTER}),
    ],
)
def test_where_running_statistics_are(
    algorithm: Algorithm, buffers: Buffers, travelling: set[str], kept: set[str]
) -> None:
    task = Task(small_network(), buffers=buffers)
    of_norm = STATISTICS | {COUNTER}
    assert shared_names(algorithm, task, task.weights) & of_norm == travelling
    assert kept_names(algorithm, task, task.weights) & of_norm == kept


def train(task: Task, part: Selector) -> Tensors:
    [after] = run_phase(Phase(part, SGD(0.1)), [client_of(task)], [task.weights])
    return after


@pytest.mark.parametrize(
    ("frozen_norm", "part", "moves"),
    [("train", HEAD, True), ("eval", HEAD, False), ("train", NORM, True), ("eval", NORM, True)],
)
def test_statistics_of_a_frozen_norm(frozen_norm: Literal["train", "eval"], part: Selector, moves: bool) -> None:
    task = Task(small_network(), frozen_norm=frozen_norm)
    after = train(task, part)
    for name in (*STATISTICS, COUNTER):
        assert torch.equal(after[name], task.weights[name]) != moves, name
    assert torch.equal(after["norm1.weight"], task.weights["norm1.weight"]) == (part is HEAD)


def test_a_phase_leaves_the_statistics_it_began_with() -> None:
    task = Task(small_network())
    before = {name: tensor.clone() for name, tensor in task.weights.items()}
    train(task, NETWORK)
    assert all(torch.equal(tensor, before[name]) for name, tensor in task.weights.items())


@pytest.mark.parametrize(("algorithm", "counted"), [(fedavg(), [3, 3]), (fedbn(), [3, 6])])
def test_counters_advance_but_never_travel(algorithm: Algorithm, counted: list[int]) -> None:
    """Where the norm is shared a counter starts anew in each round; where it is personal it goes on."""
    task = Task(small_network())
    client = client_of(task)
    received = initial_state(algorithm, client, [12])
    assert COUNTER not in received
    for steps in counted:
        [trained] = client_round(algorithm, [replace(client, received=received)], run_phase)
        assert COUNTER not in trained.update.values
        assert trained.tensors[COUNTER].item() == steps
        assert trained.tensors[COUNTER].dtype == torch.int64
        client = replace(client, own=trained.own)


@pytest.mark.parametrize("evaluate", [True, False])
def test_features_and_head_make_the_outputs(evaluate: bool) -> None:
    task = Task(small_network(), groups={"head": "head"})
    task.evaluate_() if evaluate else task.train_(frozenset(task.network.names))
    inputs = DATA[0].train.inputs
    features = task.features(task.weights, inputs)
    assert features.shape == (12, 5)
    assert torch.equal(task.head_outputs(task.weights, features), task.outputs(task.weights, inputs))


def test_a_head_in_the_middle_sees_what_comes_before_it() -> None:
    task = Task(small_network(), groups={"head": "layer2"})
    features = task.features(task.weights, DATA[0].train.inputs)
    expected = features @ task.weights["layer2.weight"].T + task.weights["layer2.bias"]
    assert torch.allclose(task.head_outputs(task.weights, features), expected)


def test_looking_at_features_leaves_nothing_behind() -> None:
    task = Task(small_network())
    task.features(task.weights, DATA[0].train.inputs)
    assert not task.head._forward_pre_hooks


def test_a_head_of_two_modules_has_no_single_input() -> None:
    task = Task(small_network(), groups={"head": ("layer2", "head")})
    with pytest.raises(PartitaError, match=r"spans 2 modules.*groups="):
        task.features(task.weights, DATA[0].train.inputs)
