"""What has a body learned? Templates by hand, alignment by its invariances, and nothing that moves.

One file, since all measures are tried on the same drawn features.
"""

import math

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn

from partita.core.samples import Preparation, Samples
from partita.core.task import Buffers, Task
from partita.errors import DivergedError, PartitaError
from partita.evaluation.representation import (
    Similarity,
    _alignment,
    _centred,
    body_features,
    embedding,
    layer_cka,
    layer_similarity,
    nearest_template,
    similarities,
    templates,
    without_head,
)
from partita.tensors import Tensors
from toys import scalar_task, small_federation, small_network

SEEDS = st.integers(0, 2**16)
DATA = small_federation()


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rotation(size: int, seed: int) -> Tensor:
    found: Tensor = torch.linalg.qr(drawn(size, size, seed=seed))[0]
    return found


def role(client: int, name: str) -> Samples:
    return DATA.samples.take(DATA.roles[client][name])  # type: ignore[index]


def identity_task() -> Task:
    """A body that hands its two inputs on, and a head of three classes."""
    net = nn.Sequential()
    net.add_module("body", nn.Linear(2, 2, bias=False))
    net.add_module("head", nn.Linear(2, 3))
    task = Task(net)
    task.weights["body.weight"] = torch.eye(2)
    return task


def moved(task: Task, seed: int) -> Tensors:
    """Another client's weights."""
    return {
        name: tensor + 0.3 * drawn(*tensor.shape, seed=seed).abs() if tensor.is_floating_point() else tensor
        for name, tensor in task.weights.items()
    }


def test_templates_are_means_by_class() -> None:
    found, classes = templates(torch.tensor([[1.0, 2.0], [3.0, 4.0], [10.0, 0.0]]), torch.tensor([4, 4, 1]))
    assert classes.tolist() == [1, 4]
    assert found.tolist() == [[10.0, 0.0], [2.0, 3.0]]


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        pytest.param(torch.zeros(0, dtype=torch.int64), "one class for each sample", id="none"),
        pytest.param(torch.zeros(3), "float32", id="numbers"),
        pytest.param(torch.zeros(3, 5, dtype=torch.int64), "3, 5", id="words"),
    ],
)
def test_templates_need_classes(targets: Tensor, message: str) -> None:
    with pytest.raises(PartitaError, match=message):
        templates(torch.zeros(len(targets), 2), targets)


@pytest.mark.parametrize(
    ("similarity", "expected", "nearest"), [("cosine", [0.970143, 0.857493], 3), ("euclidean", [-8.0156, -1.1180], 8)]
)
def test_g23_by_similarity(similarity: Similarity, expected: list[float], nearest: int) -> None:
    known, query = torch.tensor([[10.0, 0.0], [1.0, 1.0]]), torch.tensor([[2.0, 0.5]])
    assert similarities(query, known, similarity)[0].tolist() == pytest.approx(expected, abs=6e-5)
    assert nearest_template(query, known, torch.tensor([3, 8]), similarity).tolist() == [nearest]


def test_an_unknown_similarity() -> None:
    with pytest.raises(PartitaError, match="Did you mean 'cosine'"):
        similarities(torch.ones(1, 2), torch.ones(1, 2), "cosin")  # type: ignore[arg-type]


@given(SEEDS, st.sampled_from(["cosine", "euclidean"]))
@settings(max_examples=25)
def test_only_classes_with_a_template_are_answers(seed: int, similarity: Similarity) -> None:
    targets = torch.tensor([1, 4, 4, 9, 1])
    known, classes = templates(drawn(5, 3, seed=seed), targets)
    answers = nearest_template(drawn(20, 3, seed=seed + 1), known, classes, similarity)
    assert set(answers.tolist()) <= {1, 4, 9}
    assert nearest_template(known, known, classes, similarity).tolist() == [1, 4, 9]


@pytest.mark.parametrize(("similarity", "correct"), [("cosine", 2), ("euclidean", 1)])
def test_without_head_by_hand(similarity: Similarity, correct: int) -> None:
    """G-23's query is of class 0, right by cosine alone; the second is right by both; class 7 was never trained."""
    train = Samples(torch.tensor([[9.0, 0.0], [11.0, 0.0], [1.0, 1.0]]), torch.tensor([0, 0, 2]))
    test = Samples(torch.tensor([[2.0, 0.5], [1.0, 1.2], [0.0, 3.0]]), torch.tensor([0, 2, 7]))
    task = identity_task()
    assert without_head(task, task.weights, train, test, similarity) == {"count": 3, "correct": correct}
    task.weights["head.weight"] = torch.full((3, 2), math.nan)
    assert without_head(task, task.weights, train, test, similarity, batch=1)["correct"] == correct


def test_features_flattened_and_without_augmentation() -> None:
    """Mirrored in training, an image is taken as it is."""
    net = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Flatten(), nn.Linear(32, 2))
    task = Task(net)
    images = drawn(6, 1, 4, 4).float()
    mirrored = Samples(images, torch.arange(6) % 2, preparation=Preparation(flip=True, crop=1))
    found = body_features(task, task.weights, mirrored)
    assert found.shape == (6, 32)
    assert torch.equal(found, net[:2](images).detach())
    assert not found.requires_grad


@pytest.mark.parametrize("buffers", ["follow", "batch"])
def test_nothing_moves(buffers: Buffers) -> None:
    task = Task(small_network(), buffers=buffers)
    before = {name: tensor.clone() for name, tensor in task.weights.items()}
    for similarity in ("cosine", "euclidean"):
        found = without_head(task, task.weights, role(0, "train"), role(0, "test"), similarity, 5)
        assert found["count"] == 6
        assert 0 <= found["correct"] <= 6
    layer_cka(task, [task.weights, task.weights], role(0, "train"), 5)
    layer_similarity(task, [task.weights, task.weights])
    assert all(torch.equal(before[name], tensor) for name, tensor in task.weights.items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in task.module.modules())


def test_without_head_on_clients() -> None:
    """The classes of the toy are far apart: even a body as initialised tells most of them."""
    task = Task(small_network())
    sums = [without_head(task, task.weights, role(client, "train"), role(client, "test")) for client in range(4)]
    assert sum(each["correct"] for each in sums) / sum(each["count"] for each in sums) > 0.6


def test_batches_do_not_matter_with_running_statistics() -> None:
    task, samples = Task(small_network()), role(2, "train")
    whole = body_features(task, task.weights, samples)
    assert torch.allclose(whole, body_features(task, task.weights, samples, 3), rtol=0, atol=1e-14)


def test_batches_are_mixed_where_statistics_are_of_the_batch() -> None:
    """Two classes one after the other: in order, each batch is of one class, and the classes look alike.

    Mixed, they are as far apart as in one batch of all.
    """
    net = nn.Sequential()
    net.add_module("norm", nn.BatchNorm1d(1, affine=False))
    net.add_module("body", nn.Linear(1, 1, bias=False))
    net.add_module("head", nn.Linear(1, 2))
    task = Task(net.double(), buffers="batch")
    task.weights["body.weight"] = torch.ones(1, 1, dtype=torch.float64)
    targets = torch.arange(2).repeat_interleave(40)
    samples = Samples(20.0 * targets[:, None] + drawn(80, 1), targets)

    def gap(features: Tensor) -> float:
        return float(features[40:].mean() - features[:40].mean())

    def mixed(seed: int, batch: int = 40) -> Tensor:
        return body_features(task, task.weights, samples, batch, torch.Generator().manual_seed(seed))

    in_order = torch.cat([task.features(task.weights, part) for part in samples.inputs.tensor_split(2)])
    assert abs(gap(in_order)) < 1e-12
    assert gap(mixed(0)) == pytest.approx(2, abs=0.1)
    assert torch.equal(mixed(0), mixed(0))
    assert not torch.equal(mixed(0), mixed(1))
    assert torch.allclose(mixed(0, 80), mixed(1, 80))
    assert without_head(task, task.weights, samples, samples, batch=40) == {"count": 80, "correct": 80}


def test_no_sample_is_left_over_for_a_batch_of_its_own() -> None:
    """Of 7 samples in batches of 3 the last would be one, whose statistics do not exist."""
    task = Task(small_network(), buffers="batch")
    assert body_features(task, task.weights, role(1, "train"), 3).shape == (7, 5)


def test_features_that_are_not_finite() -> None:
    task = identity_task()
    task.weights["body.weight"] = torch.full((2, 2), math.inf)
    samples = Samples(torch.ones(2, 2), torch.tensor([0, 1]))
    with pytest.raises(DivergedError, match="not finite"):
        without_head(task, task.weights, samples, samples)


def test_no_samples() -> None:
    task = identity_task()
    nothing = Samples(torch.ones(0, 2), torch.zeros(0, dtype=torch.int64))
    with pytest.raises(PartitaError, match="0 samples"):
        without_head(task, task.weights, nothing, nothing)


def linear_cka(one: Tensor, other: Tensor) -> float:
    """As layers are compared: by the products of samples."""
    return float((_alignment(_centred(one)) * _alignment(_centred(other))).sum())


def cka_by_features(one: Tensor, other: Tensor) -> float:
    """By the products of features."""
    first, second = (wide - wide.mean(0) for wide in (one.detach().double(), other.detach().double()))
    within = torch.linalg.norm(first.T @ first) * torch.linalg.norm(second.T @ second)
    return float((first.T @ second).square().sum() / within)


def test_alignment_by_hand() -> None:
    """Centred (-1, 1, 0) and (-1, 0, 1): the product is 1, of norms 2 each: 1 / 4 after squaring."""
    assert linear_cka(torch.tensor([[1.0], [3.0], [2.0]]), torch.tensor([[4.0], [5.0], [6.0]])) == pytest.approx(0.25)


@pytest.mark.parametrize("width", [3, 40])
@given(seed=SEEDS, scale=st.floats(1e-6, 1e6), shift=st.floats(-3, 3))
@settings(max_examples=20)
def test_alignment_knows_no_rotation_scale_or_shift(width: int, seed: int, scale: float, shift: float) -> None:
    """With fewer features than samples and with more."""
    one, other = drawn(12, width, seed=seed), drawn(12, width, seed=seed + 1)
    turned = scale * (one @ rotation(width, seed + 2) + shift)
    assert linear_cka(one, one) == pytest.approx(1)
    assert linear_cka(one, turned) == pytest.approx(1)
    found = linear_cka(one, other)
    assert -1e-12 <= found < 1
    assert linear_cka(turned, other) == pytest.approx(found)
    assert linear_cka(other, one) == pytest.approx(found)


@given(SEEDS)
@settings(max_examples=20)
def test_both_ways_of_calculation_agree(seed: int) -> None:
    """Columns of zeros change nothing."""
    one, other = drawn(10, 4, seed=seed), drawn(10, 6, seed=seed + 1)
    wider = [torch.cat([each, torch.zeros(10, 20)], 1) for each in (one, other)]
    assert linear_cka(one, other) == pytest.approx(linear_cka(*wider))
    assert linear_cka(one, other) == pytest.approx(cka_by_features(one, other))


def test_alignment_of_independent_features_is_small() -> None:
    assert linear_cka(drawn(2000, 5, seed=1), drawn(2000, 5, seed=2)) < 0.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_alignment_of_what_does_not_vary_is_undefined(dtype: torch.dtype) -> None:
    """0.1 is no binary number: its mean over seven rows may differ from it in the last bit."""
    constant, varied = torch.full((7, 3), 0.1, dtype=dtype), drawn(7, 3).to(dtype)
    assert math.isnan(linear_cka(constant, varied))
    assert math.isnan(linear_cka(varied, torch.zeros(7, 30, dtype=dtype)))


@pytest.mark.parametrize("count", [0, 1])
def test_alignment_needs_several_samples(count: int) -> None:
    task = Task(small_network())
    with pytest.raises(PartitaError, match=f"The probe has {count} samples?, but needs"):
        layer_cka(task, [task.weights] * 2, role(2, "train").take(slice(0, count)))


def test_similarity_of_parameters_by_hand() -> None:
    """(3, 4), (4, 3) and (-3, -4): 24 / 25, -1 and -24 / 25."""
    task = scalar_task(u=0.0, v=0.0)
    clients = [{"u": torch.tensor(u), "v": torch.tensor(v)} for u, v in ((3.0, 4.0), (4.0, 3.0), (-3.0, -4.0))]
    found = layer_similarity(task, clients)
    assert list(found) == ["u"]
    assert found["u"].tolist() == [
        pytest.approx(row) for row in ([1, 24 / 25, -1], [24 / 25, 1, -24 / 25], [-1, -24 / 25, 1])
    ]


def test_similarity_by_layer() -> None:
    """Another head makes another head alone; statistics and counters are no parameters."""
    task = Task(small_network())
    other = task.weights | {
        "head.weight": -task.weights["head.weight"],
        "head.bias": -task.weights["head.bias"],
        "norm1.running_mean": task.weights["norm1.running_mean"] + 7,
    }
    found = layer_similarity(task, [task.weights, other])
    assert {layer: round(float(matrix[0, 1]), 12) for layer, matrix in found.items()} == {
        "layer1": 1,
        "layer2": 1,
        "head": -1,
    }


def test_similarity_of_networks_that_differ() -> None:
    task = Task(small_network())
    with pytest.raises(PartitaError, match=r"differ in head\.weight"):
        layer_similarity(task, [task.weights, task.weights | {"head.weight": torch.zeros(2, 5)}])


@pytest.mark.parametrize("norm", [False, True])
def test_alignment_by_layer(norm: bool) -> None:
    """A layer ends with its norm; the passes are those of plain modules with the clients' weights."""
    task = Task(small_network(norm))
    clients = [moved(task, seed) for seed in (1, 2, 3)]
    probe = role(2, "train")
    found = layer_cka(task, clients, probe, batch=8)
    ends = {"layer1": 2 if norm else 1, "layer2": -2, "head": None}
    assert list(found) == list(ends)
    nets = []
    for weights in clients:
        net = small_network(norm).eval()
        net.load_state_dict(weights)
        nets.append(net)
    for layer, end in ends.items():
        outputs = [net[:end](probe.inputs) for net in nets]  # type: ignore[index]
        expected = [[cka_by_features(one, other) for other in outputs] for one in outputs]
        assert torch.allclose(found[layer], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-10)


def test_alignment_by_layer_is_of_networks_and_not_of_batches() -> None:
    """Normalised by the batch, equal networks stay equal: all clients see the same batches."""
    task = Task(small_network(), buffers="batch")
    found = layer_cka(task, [task.weights] * 2, role(2, "train"), batch=5, draw=torch.Generator().manual_seed(3))
    assert all(matrix[0, 1] == pytest.approx(1) for matrix in found.values())


def test_what_follows_a_layer_in_place_does_not_change_it() -> None:
    net = small_network(norm=False)
    task, probe = Task(net), role(2, "train")
    clients = [moved(task, seed) for seed in (1, 2)]
    plain = layer_cka(task, clients, probe)
    for name in ("relu1", "relu2"):
        net.register_module(name, nn.ReLU(inplace=True))
    in_place = layer_cka(Task(net), clients, probe)
    assert all(torch.equal(plain[layer], in_place[layer]) for layer in plain)


class Recurrent(nn.Module):
    """A module that answers with a pair, and a layer that is used but never called."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.GRU(3, 4, batch_first=True)
        self.unused = nn.Linear(4, 4)
        self.head = nn.Linear(4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = nn.functional.linear(self.memory(inputs)[0][:, -1], self.unused.weight)
        answer: Tensor = self.head(hidden)
        return answer


def test_layers_that_answer_with_a_pair_or_are_never_called() -> None:
    task = Task(Recurrent())
    probe = Samples(drawn(9, 5, 3).float(), torch.zeros(9, dtype=torch.int64))
    found = layer_cka(task, [task.weights, task.weights], probe)
    assert list(found) == ["memory", "head"]
    assert found["memory"].shape == (2, 2)


def test_a_probe_of_one_sample() -> None:
    task = Task(small_network())
    with pytest.raises(PartitaError, match="The probe has 1 sample, but needs at least 2"):
        layer_cka(task, [task.weights], role(0, "train").take(slice(1)))


@pytest.mark.parametrize(("count", "width"), [(2, 3), (3, 1), (5, 4), (40, 6)])
def test_a_map_of_few_points(count: int, width: int) -> None:
    features = drawn(count, width).float()
    first, again = embedding(features, seed=1), embedding(features, seed=1)
    assert first.shape == (count, 2)
    assert first.isfinite().all()
    assert torch.equal(first, again)


def test_a_map_keeps_groups_together() -> None:
    groups = torch.arange(3).repeat_interleave(15)
    features = 30 * drawn(3, 8, seed=4)[groups] + drawn(45, 8)
    places = embedding(features)
    distances = torch.cdist(places, places).fill_diagonal_(math.inf)
    assert torch.equal(groups[distances.argmin(1)], groups)


def test_a_map_of_points_that_are_all_the_same() -> None:
    assert embedding(torch.ones(5, 3)).isfinite().all()


def test_a_map_needs_two_points() -> None:
    with pytest.raises(PartitaError, match="The map has 1 sample, but needs at least 2"):
        embedding(torch.ones(1, 3))
