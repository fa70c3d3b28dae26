"""The fast runner agrees with the readable one, whatever a phase is made of, and leaves what it is given alone.

One file, since all phases and networks are held against the readable engine in the same way.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings as examples, strategies as st
from torch import Tensor, nn
from torch.nn import functional as F

from laws.methods import ALGORITHMS
from laws.test_laws import BATCHING, DATA
from partita import registry
from partita.algorithms._layerwise import Layerwise, official_factors, paper_factors
from partita.algorithms.fedper import fedper
from partita.algorithms.flayer import flayer
from partita.core.algorithm import Algorithm, RunPhase, begin, client_round, enter
from partita.core.batching import Batching
from partita.core.client import Client
from partita.core.network import Network
from partita.core.objectives import Loss
from partita.core.optimizers import SGD, Optimizer, adagrad, adam, yogi
from partita.core.penalties import Proximal, together
from partita.core.phases import Phase
from partita.core.samples import Samples
from partita.core.schedules import DECAY, exponential
from partita.core.selectors import BODY, EVERYTHING, HEAD, NETWORK, WEIGHTS, below, where
from partita.core.task import Task
from partita.core.views import copy
from partita.engine import reference
from partita.engine.fast import FastEngine
from partita.engine.shortcuts import obstacle
from partita.errors import DivergedError
from partita.experiment.simulate import simulate
from partita.models.cnn4 import cnn4
from partita.randomness import Moment
from partita.tensors import Tensors, prefixed
from toys import exploding, half_squared_error, scalar_client, scalar_task, small_network

PERSONAL = copy("personal/")
FLOATS: Mapping[torch.dtype, float] = {torch.float32: 1e-6, torch.float64: 1e-12}
every_float = pytest.mark.parametrize("kind", FLOATS, ids=["float32", "float64"])


def some(shape: tuple[int, ...], count: int = 23, *, classes: int = 3, kind: torch.dtype = torch.float64) -> Samples:
    draw = torch.Generator().manual_seed(5)
    targets = torch.randint(classes, (count,), generator=draw)
    return Samples(torch.randn(count, *shape, generator=draw, dtype=torch.float64).to(kind), targets)


def words(count: int = 23, *, vocabulary: int = 40, used: int = 12) -> Samples:
    """Texts of 5 words, of which many are never used."""
    draw = torch.Generator().manual_seed(6)
    return Samples(torch.randint(used, (count, 5), generator=draw), torch.randint(3, (count,), generator=draw))


def holder(task: Task, samples: Samples) -> tuple[Client, Tensors]:
    """A client that holds weights of a network, and a second, personal set; it received others."""
    draw = torch.Generator().manual_seed(9)

    def shifted(size: float) -> Tensors:
        return {
            name: t + size * torch.rand(t.shape, generator=draw, dtype=torch.float64).to(t.dtype)
            if t.is_floating_point()
            else t.clone()
            for name, t in task.weights.items()
        }

    received, initial = shifted(0.1), task.weights | prefixed("personal/", shifted(0.2))
    client = Client(2, task, samples, samples.take(slice(0)), Moment(3, 8, 1), Batching(4), initial, {}, received)
    return client, initial | received


def difference(one: Tensors, other: Tensors) -> float:
    """The largest distance of two tensors of the same name, relative to their size."""
    assert list(one) == list(other)
    worst = 0.0
    for name, tensor in one.items():
        assert tensor.shape == other[name].shape
        assert tensor.dtype == other[name].dtype
        wide = tensor.double(), other[name].double()
        worst = max(worst, float((wide[0] - wide[1]).norm() / wide[1].norm().clamp(min=0.1)))
    return worst


def both(phase: Phase, client: Client, tensors: Tensors) -> tuple[Tensors, Tensors]:
    """What either runner makes of the same tensors; neither changes a bit of what it was given."""
    before = {name: tensor.clone() for name, tensor in tensors.items()}
    known = {"received": client.received, "initial": client.initial, "weights": client.task.weights}
    others = {place: {name: t.clone() for name, t in found.items()} for place, found in known.items()}
    found = []
    engines: tuple[RunPhase, RunPhase] = (reference.run_phase, FastEngine())
    for run_phase in engines:
        found += run_phase(phase, [client], [tensors])
        assert list(tensors) == list(before)
        assert not [name for name in before if not torch.equal(tensors[name], before[name])]
        for place, kept in others.items():
            assert not [name for name in kept if not torch.equal(known[place][name], kept[name])], place
    return found[1], found[0]


def agree(phase: Phase, client: Client, tensors: Tensors, *, to: float = 1e-12, moves: bool = True) -> Tensors:
    assert obstacle(phase) is None
    quick, slow = both(phase, client, tensors)
    assert difference(quick, slow) <= to
    if moves:
        assert any(not torch.equal(slow[name], tensors[name]) for name in tensors)
    return quick


def some_penalty(trained: Tensors, client: Client) -> Tensor:
    """One that is no proximal term."""
    return 0.05 * torch.stack([tensor.abs().sum() for tensor in trained.values()]).sum()


PHASES: dict[str, Phase] = {
    "sgd": Phase(NETWORK, SGD(0.1), epochs=2),
    "momentum": Phase(NETWORK, SGD(0.05, momentum=0.9), epochs=2),
    "nesterov": Phase(NETWORK, SGD(0.05, momentum=0.9, nesterov=True), epochs=2),
    "decay": Phase(NETWORK, SGD(0.1, weight_decay=0.1), epochs=2),
    "decay on weights": Phase(NETWORK, SGD(0.1, weight_decay=0.1, decayed=WEIGHTS), epochs=2),
    "decay, momentum": Phase(NETWORK, SGD(0.1, momentum=0.5, weight_decay=0.1, decayed=HEAD, nesterov=True), epochs=2),
    "clip": Phase(NETWORK, SGD(0.1, clip=0.3), epochs=2),
    "clip, decay, momentum": Phase(NETWORK, SGD(0.1, clip=0.3, weight_decay=0.2, momentum=0.9), epochs=2),
    "clip that is not reached": Phase(NETWORK, SGD(0.1, clip=1e3), epochs=1),
    "rates": Phase(NETWORK, SGD(0.1, rates=((HEAD, 0.0), (WEIGHTS, 3.0), (BODY, 0.5))), epochs=2),
    "rates, decay, momentum": Phase(
        NETWORK, SGD(0.1, momentum=0.9, weight_decay=0.1, decayed=BODY, rates=((WEIGHTS, 0.2),)), epochs=2
    ),
    "schedule": Phase(NETWORK, SGD(0.1, schedule=exponential(0.7)), epochs=2),
    "schedule by parts": Phase(NETWORK, SGD(0.1, schedule=DECAY, momentum=0.9), epochs=2),
    "adam": Phase(NETWORK, adam(0.01), epochs=2),
    "adam with a schedule": Phase(NETWORK, adam(0.01, schedule=exponential(0.5)), epochs=2),
    "yogi": Phase(NETWORK, yogi(0.01), epochs=2),
    "adagrad": Phase(NETWORK, adagrad(0.01), epochs=2),
    "by layer": Phase(NETWORK, Layerwise(SGD(0.01, momentum=0.9), paper_factors()), epochs=2),
    "by layer, each step": Phase(NETWORK, Layerwise(SGD(0.01, clip=1.0), paper_factors(2.0), recompute="step")),
    "by layer, official": Phase(
        NETWORK, Layerwise(SGD(0.01, weight_decay=0.1), official_factors(1.5, 0.2), recompute="epoch"), epochs=2
    ),
    "near the received": Phase(NETWORK, SGD(0.1), penalty=Proximal(0.7), epochs=2),
    "near the initial": Phase(NETWORK, SGD(0.1, momentum=0.9), penalty=Proximal(0.7, to="initial"), epochs=2),
    "near zero": Phase(NETWORK, SGD(0.1), penalty=Proximal(0.7, to="zero", on=HEAD), epochs=2),
    "near, clipped": Phase(NETWORK, SGD(0.1, clip=0.3, weight_decay=0.1), penalty=Proximal(0.7), epochs=2),
    "near, adam": Phase(NETWORK, adam(0.01), penalty=Proximal(0.7), epochs=2),
    "near, by layer": Phase(NETWORK, Layerwise(SGD(0.01), paper_factors()), penalty=Proximal(0.7), epochs=2),
    "another penalty": Phase(NETWORK, SGD(0.1), penalty=some_penalty, epochs=2),
    "two penalties": Phase(NETWORK, SGD(0.1), penalty=together(Proximal(0.7), some_penalty), epochs=2),
    "projected": Phase(NETWORK, SGD(0.1), project=lambda name, tensor: tensor.clamp(-0.2, 0.2), epochs=2),
    "projected by name": Phase(
        NETWORK,
        SGD(0.1, momentum=0.9),
        project=lambda name, tensor: tensor / tensor.norm() if name == "head.weight" else tensor,
        epochs=2,
    ),
    "until": Phase(NETWORK, SGD(0.1), epochs=9, until=lambda losses: len(losses) >= 3),
    "until the loss is low": Phase(NETWORK, SGD(0.1), epochs=30, until=lambda losses: losses[-1] < 0.8),
    "carry": Phase(NETWORK, SGD(0.1, momentum=0.9), epochs=1, carry=True),
    "carry, adam": Phase(NETWORK, adam(0.01), epochs=1, carry=True),
    "three steps": Phase(NETWORK, SGD(0.1), steps=3),
    "steps over epochs": Phase(NETWORK, SGD(0.1, momentum=0.9), steps=9),
    "steps or epochs": Phase(NETWORK, SGD(0.1), epochs=1, steps=50),
    "no step": Phase(NETWORK, SGD(0.1), steps=0),
    "no epoch": Phase(NETWORK, SGD(0.1), epochs=0),
    "epochs by client": Phase(NETWORK, SGD(0.1), epochs=lambda client: client.id),
    "body": Phase(BODY, SGD(0.1, momentum=0.9), epochs=2),
    "head": Phase(HEAD, SGD(0.1, momentum=0.9, weight_decay=0.1), epochs=2),
    "one tensor": Phase(where("layer2.weight"), SGD(0.1), epochs=2),
    "personal": Phase(PERSONAL.place(NETWORK), SGD(0.1, momentum=0.9), epochs=2, view=PERSONAL),
    "personal head": Phase(PERSONAL.place(HEAD), SGD(0.1), epochs=2, view=PERSONAL),
    "personal, near the received": Phase(
        PERSONAL.place(NETWORK), SGD(0.1), epochs=2, view=PERSONAL, penalty=Proximal(0.7)
    ),
    "personal, near the initial": Phase(
        PERSONAL.place(NETWORK), SGD(0.1), epochs=2, view=PERSONAL, penalty=Proximal(0.7, to="initial")
    ),
    "part of the samples": Phase(NETWORK, SGD(0.1), epochs=2, samples=lambda client: client.train.take(slice(3, 12))),
}
STILL = ("no step", "no epoch")


@every_float
@pytest.mark.parametrize("norm", [True, False], ids=["norm", "no norm"])
@pytest.mark.parametrize("name", PHASES)
def test_phases_agree(name: str, norm: bool, kind: torch.dtype) -> None:
    client, tensors = holder(Task(small_network(norm).to(kind)), some((4,), kind=kind))
    agree(PHASES[name], client, tensors, to=FLOATS[kind], moves=name not in STILL)


@pytest.mark.parametrize("optimizer", [SGD(0.1, momentum=0.9), adam(0.01), SGD(0.1)], ids=["momentum", "adam", "sgd"])
def test_an_optimizer_that_is_carried_on_agrees_and_leaves_what_it_was_given(optimizer: Optimizer) -> None:
    client, tensors = holder(Task(small_network()), some((4,)))
    phase = Phase(NETWORK, optimizer, carry=True)
    after = agree(phase, client, tensors)
    last = agree(phase, client, after)
    again = agree(replace(phase, train=HEAD), client, after)
    if optimizer != SGD(0.1):
        assert difference(last, agree(replace(phase, carry=False), client, after) | _optimizer(last)) > 1e-3
        assert _optimizer(after).keys() == _optimizer(again).keys() != set()


def _optimizer(tensors: Tensors) -> Tensors:
    return {name: tensor for name, tensor in tensors.items() if name.startswith("optimizer/")}


def test_a_step_by_hand() -> None:
    """Two steps with momentum and decay: w = 2, then g = w - a + decay w, v = v / 2 + g, w = w - v / 10."""
    task = scalar_task(w=2.0)
    client = scalar_client(task, 1.0, 2)
    phase = Phase(NETWORK, SGD(0.1, momentum=0.5, weight_decay=0.5))
    [after] = FastEngine()(phase, [client], [task.weights])
    first = 1 + 1.0
    second = first / 2 + (1.8 - 1) + 0.9
    assert after["w"].item() == pytest.approx(1.8 - second / 10, abs=1e-15)
    assert task.weights["w"].item() == 2.0


# Networks.


class Residual(nn.Module):
    """Convolutions of several kinds, strides and groups, where layouts in memory differ."""

    def __init__(self, norm: bool) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1, bias=not norm)
        self.norm = nn.BatchNorm2d(8) if norm else nn.Identity()
        self.deep = nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False)
        self.point = nn.Conv2d(8, 4, 1)
        self.down = nn.Conv2d(8, 4, 2, stride=2)
        self.up = nn.ConvTranspose2d(4, 4, 2, stride=2)
        self.head = nn.Linear(4 * 9, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.norm(self.first(inputs)).relu()
        hidden = hidden + self.deep(hidden)
        hidden = self.point(hidden) * self.up(self.down(hidden))
        outputs: Tensor = self.head(F.max_pool2d(hidden, 2).flatten(1))
        return outputs


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, inputs: Tensor) -> Tensor:
        return F.dropout(self.layers(inputs), 0.3, self.training)


class Tied(nn.Module):
    """An embedding that is also the output layer of a network of words."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(40, 6)
        self.hidden = nn.Linear(6, 6)
        self.head = nn.Linear(6, 40)
        self.head.weight = self.embedding.weight

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.hidden(self.embedding(inputs)).mean(1))
        return outputs


def convolutions(norm: bool) -> nn.Module:
    """A plain sequence of all that comes with convolutions; a bias before a norm would have rounding for a gradient."""
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, bias=not norm),
        nn.BatchNorm2d(4, momentum=0.3) if norm else nn.Conv2d(4, 4, 3, stride=1, padding=1, groups=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 5, 2, bias=not norm),
        nn.MaxPool2d(2, stride=1, padding=1),
        nn.BatchNorm2d(5) if norm else nn.ReLU(),
        nn.Flatten(),
        nn.Linear(45, 3),
    )


def tied_chain() -> nn.Module:
    """Two layers of a plain sequence that have one weight."""
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    return nn.Sequential(first, nn.ReLU(), second)


class Twice(nn.Module):
    """A layer used twice, one that is never used, and one that the network itself freezes."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(4, 5)
        self.again = nn.Linear(5, 5)
        self.unused = nn.Linear(5, 5)
        self.frozen = nn.Linear(5, 5).requires_grad_(False)
        self.head = nn.Linear(5, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.again(self.again(self.enter(inputs)).tanh()).tanh()
        outputs: Tensor = self.head(self.frozen(hidden))
        return outputs


class Sums(nn.Module):
    """Parameters whose gradients are one number repeated, or one and the same tensor, or transposed."""

    def __init__(self) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(1)
        self.spread, self.left, self.right = (nn.Parameter(torch.randn(7, 3, generator=draw)) for _ in range(3))
        self.turned = nn.Parameter(torch.randn(3, 4, 5, generator=draw))
        self.head = nn.Linear(4, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        turned = torch.einsum("bi,kij->bk", inputs, self.turned.permute(0, 1, 2)) + self.turned.permute(2, 1, 0).sum()
        outputs: Tensor = (
            self.head(inputs) + (self.left + self.right).tanh().mean(0) + 0.01 * self.spread.sum() + turned
        )
        return outputs


def texts(sparse: bool = False, **options: Any) -> nn.Module:
    class Words(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(40, 6, sparse=sparse, **options)
            self.head = nn.Linear(6, 3)

        def forward(self, inputs: Tensor) -> Tensor:
            outputs: Tensor = self.head(self.embedding(inputs).mean(1))
            return outputs

    return Words()


@dataclass(frozen=True)
class Setup:
    make: Callable[[], nn.Module]
    samples: Callable[[torch.dtype], Samples]
    task: Mapping[str, Any]


def images(kind: torch.dtype) -> Samples:
    return some((3, 6, 6), 13, kind=kind)


def vectors(kind: torch.dtype) -> Samples:
    return some((4,), 13, kind=kind)


def indices(kind: torch.dtype) -> Samples:
    return words(13)


NETWORKS: dict[str, Setup] = {
    "convolutions": Setup(lambda: Residual(False), images, {}),
    "convolutions, norm": Setup(lambda: Residual(True), images, {}),
    "group norm": Setup(
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(64, 3)
        ),
        images,
        {},
    ),
    "chain of convolutions": Setup(lambda: convolutions(False), images, {}),
    **{
        f"chain of convolutions, norm, statistics {buffers}, frozen norm {frozen}": Setup(
            lambda: convolutions(True), images, {"buffers": buffers, "frozen_norm": frozen}
        )
        for buffers in ("follow", "batch")
        for frozen in ("train", "eval")
    },
    "dropout": Setup(Dropping, vectors, {}),
    "used twice, never, frozen": Setup(Twice, vectors, {}),
    "tied": Setup(Tied, indices, {}),
    "tied in a chain": Setup(lambda: tied_chain(), vectors, {}),
    "embedding": Setup(texts, indices, {}),
    "embedding with padding": Setup(lambda: texts(padding_idx=3), indices, {}),
    "embedding that is sparse itself": Setup(lambda: texts(sparse=True), indices, {}),
    "recurrent": Setup(lambda: Recurrent(), lambda kind: some((5, 4), 13, kind=kind), {}),
    **{
        f"statistics {buffers}, frozen norm {frozen}": Setup(
            lambda: small_network(), vectors, {"buffers": buffers, "frozen_norm": frozen}
        )
        for buffers in ("follow", "local", "batch")
        for frozen in ("train", "eval")
    },
}
OPTIMIZERS: dict[str, Optimizer] = {
    "sgd": SGD(0.1),
    "momentum": SGD(0.05, momentum=0.9, weight_decay=0.01, clip=1.0),
    "adam": adam(0.01),
}


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRU(4, 6, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.cell(inputs)[0][:, -1])
        return outputs


def made(setup: Setup, kind: torch.dtype) -> tuple[Client, Tensors]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        module = setup.make().to(kind)
    return holder(Task(module, **setup.task), setup.samples(kind))


@pytest.mark.parametrize(
    ("penalty", "kind"),
    [(None, torch.float32), (None, torch.float64), (Proximal(0.5), torch.float64)],
    ids=["free-float32", "free", "near"],
)
@pytest.mark.parametrize("part", [NETWORK, BODY, HEAD], ids=["network", "body", "head"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_agree(name: str, optimizer: str, part: Any, penalty: Any, kind: torch.dtype) -> None:
    client, tensors = made(NETWORKS[name], kind)
    phase = Phase(part, OPTIMIZERS[optimizer], epochs=2, penalty=penalty)
    # Float32 convolutions sum in another order in another layout.
    agree(phase, client, tensors, to=FLOATS[kind] * (5 if kind == torch.float32 else 1))


@pytest.mark.parametrize("penalty", [None, Proximal(0.5), some_penalty], ids=["free", "near", "other"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_gradients_that_repeat_or_share_their_memory(optimizer: str, penalty: Any) -> None:
    """A sum's gradient is one number seen many times; the gradients of two terms of a sum are one tensor."""
    client, tensors = made(Setup(Sums, vectors, {}), torch.float64)
    agree(Phase(NETWORK, OPTIMIZERS[optimizer], epochs=2, penalty=penalty), client, tensors)


@pytest.mark.parametrize(("clip", "penalty"), [(None, Proximal(0.5)), (0.1, None), (0.1, Proximal(0.5))])
def test_scalars_whose_gradients_share_their_memory(clip: float | None, penalty: Proximal | None) -> None:
    """Of a stack's sum: every parameter's gradient is a look at the same number."""
    task = scalar_task(u=1.0, v=-2.0, w=5.0)
    client = replace(
        scalar_client(task, 3.0, 4), received={name: torch.zeros_like(t) for name, t in task.weights.items()}
    )
    agree(Phase(NETWORK, SGD(0.1, clip=clip), penalty=penalty), client, task.weights)


def test_frozen_norms_are_as_the_task_says() -> None:
    for frozen in ("train", "eval"):
        client, tensors = made(Setup(small_network, vectors, {"frozen_norm": frozen}), torch.float64)
        after = agree(Phase(HEAD, SGD(0.1)), client, tensors)
        moved = not torch.equal(after["norm1.running_mean"], tensors["norm1.running_mean"])
        assert moved == (frozen == "train")
        assert int(after["norm1.num_batches_tracked"]) == (3 if moved else 0)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_rows_of_words_that_are_not_used_stay_to_the_bit(optimizer: str) -> None:
    client, tensors = made(NETWORKS["embedding"], torch.float32)
    [after] = FastEngine()(Phase(NETWORK, OPTIMIZERS[optimizer], epochs=2), [client], [tensors])
    moved = (after["embedding.weight"] != tensors["embedding.weight"]).any(1)
    used = torch.zeros(40, dtype=torch.bool)
    used[client.train.inputs.flatten()] = True
    decays = optimizer == "momentum"
    assert torch.equal(moved, used | decays)
    assert not client.task.module.get_submodule("embedding").sparse


def test_an_embedding_whose_gradient_is_scaled_by_frequency() -> None:
    client, tensors = made(Setup(lambda: texts(scale_grad_by_freq=True), indices, {}), torch.float64)
    agree(Phase(NETWORK, SGD(0.1), epochs=2), client, tensors)


def test_the_module_is_sparse_as_it_was_after_a_failure() -> None:
    client, tensors = made(NETWORKS["embedding"], torch.float32)
    with pytest.raises(DivergedError):
        FastEngine()(Phase(NETWORK, exploding(1e30), epochs=9), [client], [tensors])
    assert not client.task.module.get_submodule("embedding").sparse


def test_dropout_is_the_same_noise_and_leaves_the_global_one() -> None:
    client, tensors = made(NETWORKS["dropout"], torch.float64)
    state = torch.get_rng_state()
    agree(Phase(NETWORK, SGD(0.1), epochs=3), client, tensors)
    assert torch.equal(state, torch.get_rng_state())


def test_a_large_convolutional_network() -> None:
    samples = some((3, 32, 32), 6, kind=torch.float32)
    client, tensors = holder(Task(cnn4(shape=(3, 32, 32), classes=3)), samples)
    agree(Phase(NETWORK, SGD(0.002, momentum=0.9, weight_decay=0.01), epochs=2), client, tensors, to=1e-5)


def test_images_that_are_augmented() -> None:
    from partita.core.samples import Preparation

    plain = images(torch.float64)
    samples = Samples(plain.inputs, plain.targets, preparation=Preparation(crop=2, flip=True))
    client, tensors = made(replace(NETWORKS["convolutions"], samples=lambda kind: samples), torch.float64)
    agree(Phase(NETWORK, SGD(0.1), epochs=2), client, tensors)
    agree(Phase(HEAD, SGD(0.1), epochs=2), client, tensors)


def test_clients_one_after_another_do_not_meet() -> None:
    """The module is one for all: what a client left in it must not reach the next."""
    task = Task(small_network())
    first, tensors = holder(task, some((4,)))
    second = replace(first, id=5, train=some((4,), 9))
    phase = Phase(NETWORK, SGD(0.1, momentum=0.9), epochs=2)
    together_ = FastEngine()(phase, [first, second], [tensors, tensors])
    fresh, _ = holder(Task(small_network()), some((4,)))
    alone = FastEngine()(phase, [replace(fresh, id=5, train=some((4,), 9))], [tensors])
    assert difference(together_[1], alone[0]) == 0
    assert difference(together_[0], together_[1]) > 1e-3


def test_a_phase_of_a_part_does_not_freeze_the_rest_for_the_next() -> None:
    client, tensors = holder(Task(small_network()), some((4,)))
    after = agree(Phase(HEAD, SGD(0.1)), client, tensors)
    agree(Phase(BODY, SGD(0.1)), client, after)


@given(st.data())
@examples(max_examples=60)
def test_any_phase_agrees(data: st.DataObject) -> None:
    part = st.sampled_from([NETWORK, BODY, HEAD, NETWORK & WEIGHTS])
    momentum = data.draw(st.sampled_from([0.0, 0.5, 0.9]))
    descent = SGD(
        data.draw(st.sampled_from([0.01, 0.1])),
        momentum=momentum,
        nesterov=bool(momentum) and data.draw(st.booleans()),
        weight_decay=data.draw(st.sampled_from([0.0, 0.1])),
        decayed=data.draw(st.sampled_from([EVERYTHING, WEIGHTS, HEAD])),
        clip=data.draw(st.sampled_from([None, 0.2, 5.0])),
        rates=tuple(data.draw(st.lists(st.tuples(part, st.sampled_from([0.0, 0.3, 2.0])), max_size=2))),
    )
    optimizers: list[Optimizer] = [descent, Layerwise(descent, paper_factors(3.0)), adam(0.01), yogi(0.01)]
    phase = Phase(
        data.draw(part),
        data.draw(st.sampled_from(optimizers)),
        epochs=data.draw(st.sampled_from([None, 1, 2])),
        steps=data.draw(st.sampled_from([None, 1, 7])),
        penalty=data.draw(st.sampled_from([None, Proximal(0.3), Proximal(0.3, to="zero", on=WEIGHTS), some_penalty])),
        carry=data.draw(st.booleans()),
    )
    options: dict[str, Any] = {
        "buffers": data.draw(st.sampled_from(["follow", "local", "batch"])),
        "frozen_norm": data.draw(st.sampled_from(["train", "eval"])),
    }
    client, tensors = holder(Task(small_network(data.draw(st.booleans())), **options), some((4,)))
    agree(phase, client, agree(phase, client, tensors, to=1e-11, moves=False), to=1e-11, moves=False)


# What is one's own must be used, not its like.


class Halved(SGD):
    """A step of one's own."""

    def update(
        self, params: Tensors, gradients: Tensors, state: Tensors, moment: Moment, network: Network
    ) -> tuple[Tensors, Tensors]:
        return super().update(params, {name: g / 2 for name, g in gradients.items()}, state, moment, network)


class Quartic(Proximal):
    """A penalty of one's own."""

    def __call__(self, trained: Tensors, client: Client) -> Tensor:
        return super().__call__(trained, client) ** 2


@pytest.mark.parametrize(
    "phase",
    [Phase(NETWORK, Halved(0.1)), Phase(NETWORK, SGD(0.1), penalty=Quartic(0.5))],
    ids=["optimizer", "penalty"],
)
def test_what_is_derived_from_a_known_kind_is_used_as_it_is(phase: Phase) -> None:
    client, tensors = holder(Task(small_network()), some((4,)))
    quick, slow = both(phase, client, tensors)
    assert difference(quick, slow) <= 1e-12


@pytest.mark.parametrize("run_phase", [reference.run_phase, FastEngine()], ids=["reference", "fast"])
@pytest.mark.parametrize("loss", [F.cross_entropy, lambda outputs, targets: outputs.sum() * math.nan])
def test_divergence_is_told_in_the_same_words(run_phase: Any, loss: Loss) -> None:
    client, tensors = holder(Task(small_network(False), loss=loss), some((4,)))
    rate = 1e200
    with pytest.raises(DivergedError, match=r"of client 2 became .* in round 4 while training .* rate of 1e\+200"):
        run_phase(Phase(NETWORK, exploding(rate), epochs=9), [client], [tensors])


# Algorithms.


@pytest.mark.parametrize("options", [{}, {"buffers": "local"}, {"frozen_norm": "eval"}], ids=str)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_whole_simulations_agree(name: str, options: Mapping[str, Any]) -> None:
    results = [
        simulate(
            ALGORITHMS[name],
            small_network(),
            DATA,
            rounds=3,
            seed=1,
            participation=0.67,
            batching=BATCHING,
            evaluate_every=2,
            engine=run_phase,
            **options,
        )
        for run_phase in (FastEngine(), reference.run_phase)
    ]
    quick, slow = results
    assert difference(quick.state, slow.state) <= 1e-9
    assert quick.own.keys() == slow.own.keys()
    for client in slow.own:
        assert difference(quick.own[client], slow.own[client]) <= 1e-9
    for one, other in zip(quick.records, slow.records, strict=True):
        assert replace(one, loss=0.0) == replace(other, loss=0.0)
        assert one.loss == pytest.approx(other.loss, rel=1e-9)
    assert quick.traffic == slow.traffic


OBSTACLES = {
    "apfl": "an objective of its own",
    "apple": "weights by sum of relation * core",
    "fedala": "weights by own + (received - own) * mix",
    "fedcp": "an objective of its own",
    "gpfl": "an objective of its own",
    "per_fedavg": "a gradient by Meta",
    "pfedme": "a gradient by Moreau",
    "scaffold": "a gradient by Corrected",
}


def obstacles(algorithm: Algorithm) -> set[str]:
    found: set[str] = set()
    run_phase = FastEngine()

    def note(phase: Phase, clients: Any, tensors: Any) -> list[Tensors]:
        found.update(filter(None, [obstacle(phase)]))
        return run_phase(phase, clients, tensors)

    simulate(algorithm, small_network(), DATA, rounds=1, batching=BATCHING, engine=note)
    return found


@pytest.mark.parametrize("name", registry.names("algorithms"))
def test_which_algorithms_fall_back_and_why(name: str) -> None:
    expected = OBSTACLES.get(name)
    assert obstacles(ALGORITHMS[name]) == ({expected} if expected else set())


def test_what_the_network_does_not_use_is_left_to_the_readable_runner() -> None:
    """A phase may be told to train a tensor that its view does not show; then nothing happens to that tensor."""
    task = Task(small_network())
    client, tensors = holder(task, some((4,)))
    assert obstacle(Phase(PERSONAL.place(NETWORK), SGD(0.1), view=PERSONAL)) is None
    more = tensors | {"extra/a": torch.zeros(2)}
    quick, slow = both(Phase(NETWORK | below("extra/"), SGD(0.1)), client, more)
    assert difference(quick, slow) == 0


def test_the_start_of_a_round_is_left_as_it_is() -> None:
    """Over a whole round of a method of several phases: own, received and initial tensors keep their bits."""
    task = Task(small_network())
    client, _ = holder(task, some((4,)))
    for algorithm in (flayer(variant="official", on=fedper()), ALGORITHMS["fedrep switched"], ALGORITHMS["ditto"]):
        entered = enter(algorithm, client)
        start = begin(algorithm, entered)
        before = {name: tensor.clone() for name, tensor in start.items()}
        client_round(algorithm, [replace(entered, received=entered.initial)], FastEngine())
        assert all(torch.equal(start[name], before[name]) for name in before)


def test_half_squared_error_of_one_weight_is_exact_in_float32() -> None:
    """w = 0, target 1, rate 1/2: 1/2, 3/4, 7/8; powers of two leave no rounding, in either layout or runner."""

    class One(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.zeros(1))

        def forward(self, inputs: Tensor) -> Tensor:
            return self.w.expand(len(inputs))

    task = Task(One(), loss=half_squared_error)
    samples = Samples(torch.zeros(3, 1), torch.ones(3))
    client = Client(0, task, samples, samples.take(slice(0)), batching=Batching(1))
    [after] = FastEngine()(Phase(NETWORK, SGD(0.5)), [client], [task.weights])
    assert after["w"].tolist() == [0.875]
