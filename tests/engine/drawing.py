"""Random networks, phases and clients, with everything that a shortcut could overlook.

One file, since layers, networks, phases and clients are drawn from one source of random choices.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize

from partita.core.batching import Batching
from partita.core.client import Client
from partita.core.optimizers import SGD, Optimizer, adam, yogi
from partita.core.penalties import Penalty, Proximal
from partita.core.phases import Phase
from partita.core.samples import Preparation, Samples
from partita.core.schedules import exponential
from partita.core.selectors import BODY, EVERYTHING, HEAD, NETWORK, WEIGHTS, Selector
from partita.core.task import Task
from partita.core.views import PLAIN, copy
from partita.randomness import Moment
from partita.tensors import Tensors, prefixed

CLASSES = 3
PERSONAL = copy("personal/")


# Layers that do more than a layer.


class Wrapped(nn.Module):
    """Something around an inner module."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner


class Residual(Wrapped):
    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = inputs + self.inner(inputs)
        return outputs


class Twice(Wrapped):
    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.inner(self.inner(inputs))
        return outputs


class WithoutGradient(Wrapped):
    def forward(self, inputs: Tensor) -> Tensor:
        with torch.no_grad():
            outputs: Tensor = self.inner(inputs)
        return outputs


class ByMode(Wrapped):
    """Left out in evaluation."""

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.inner(inputs) if self.training else inputs
        return outputs


class InEvaluation(Wrapped):
    """Left out in training."""

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = inputs if self.training else self.inner(inputs)
        return outputs


class SkippedAtRandom(Wrapped):
    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.inner(inputs) if float(torch.rand(())) < 0.5 else inputs
        return outputs


class ByGradientMode(Wrapped):
    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.inner(inputs)
        return outputs if torch.is_grad_enabled() else outputs * 2


class WithOption(Wrapped):
    def forward(self, inputs: Tensor, scale: float = 1.5) -> Tensor:
        outputs: Tensor = self.inner(inputs) * scale
        return outputs


class Checkpointed(Wrapped):
    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = torch.utils.checkpoint.checkpoint(self.inner, inputs, use_reentrant=False)
        return outputs


class Function(nn.Module):
    """A function in the place of a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, inputs: Tensor) -> Tensor:
        return self.function(inputs)


class Dropped(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return F.dropout(inputs, 0.3, self.training)


class Noisy(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + 0.1 * torch.randn(inputs.shape, dtype=inputs.dtype) if self.training else inputs


class Counting(nn.Module):
    """Counts its calls in a buffer, and may answer by the number."""

    calls: Tensor

    def __init__(self, weight: float, way: str, persistent: bool) -> None:
        super().__init__()
        self.weight, self.way = weight, way
        self.register_buffer("calls", torch.zeros((), dtype=torch.float64), persistent=persistent)

    def forward(self, inputs: Tensor) -> Tensor:
        if self.way == "in place":
            self.calls += 1
        else:
            self.calls = self.calls + 1
        return inputs * (1 + self.weight * self.calls) if self.weight else inputs


class MovingScale(nn.Module):
    """A norm of one's own, with a running statistic."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(()))

    def forward(self, inputs: Tensor) -> Tensor:
        if self.training:
            self.scale.mul_(0.9).add_(inputs.detach().abs().mean(), alpha=0.1)
        return inputs / self.scale


class Doubled(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


class ShiftedLinear(nn.Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs) + 0.5


class DrawnLinear(nn.Linear):
    """Another way to draw weights, and the same layer."""

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=0.5)
        if self.bias is not None:
            nn.init.zeros_(self.bias)


class ScaledConvolution(nn.Conv2d):
    """Another way to draw weights, and another layer."""

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=0.3)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def _conv_forward(self, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        outputs: Tensor = super()._conv_forward(inputs, 1.5 * weight, bias)
        return outputs


class Reversed(torch.autograd.Function):
    """Turns the gradient round."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor) -> Tensor:
        return inputs.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return -gradients[0]


class UsesWeightOf(nn.Module):
    """Looks into another layer without calling it."""

    def __init__(self, other: nn.Linear) -> None:
        super().__init__()
        self.other = other

    def forward(self, inputs: Tensor) -> Tensor:
        return F.linear(inputs, self.other.weight)


def reversed_gradient(inputs: Tensor) -> Tensor:
    # Torch does not type the functions of autograd.
    outputs: Tensor = Reversed.apply(inputs)  # type: ignore[no-untyped-call]
    return outputs


FUNCTIONS: Sequence[Callable[[Tensor], Tensor]] = (
    torch.relu,
    F.relu,
    F.gelu,
    torch.tanh,
    lambda inputs: inputs.mul_(1.5),
    lambda inputs: inputs.clamp_(-1, 1),
    lambda inputs: inputs.detach(),
    lambda inputs: F.relu(inputs, inplace=True),
    lambda inputs: inputs - inputs.mean(0),
    lambda inputs: inputs.cumsum(0) / len(inputs),
    lambda inputs: inputs.flip(0).cumsum(0).flip(0) / len(inputs),
    lambda inputs: inputs[torch.randperm(len(inputs))],
    reversed_gradient,
)


# Networks.


@dataclass
class Draw:
    """A stream of choices."""

    of: random.Random

    def among(self, *choices: Any) -> Any:
        return self.of.choice(choices)

    def chance(self, share: float) -> bool:
        return self.of.random() < share

    def numbers(self) -> torch.Generator:
        return torch.Generator().manual_seed(self.of.randrange(1 << 30))


class Root(nn.Module):
    """Parts in a row, and something at the end."""

    def __init__(self, parts: Sequence[nn.Module], head: nn.Module, end: Callable[[Tensor], Tensor] | None) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self.head = head
        self.end = end

    def forward(self, inputs: Tensor) -> Tensor:
        for part in self.parts:
            inputs = part(inputs)
        outputs: Tensor = self.head(inputs)
        return self.end(outputs) if self.end else outputs


def network(draw: Draw, family: str) -> nn.Module:
    parts, width = {"vectors": vectors, "images": images, "sequences": sequences, "texts": texts}[family](draw)
    head: nn.Module = nn.Linear(width, CLASSES, bias=draw.chance(0.8))
    if draw.chance(0.15):
        head = draw.among(
            lambda: nn.Sequential(nn.Linear(width, 4), nn.ReLU(), nn.Linear(4, CLASSES)),
            lambda: ShiftedLinear(width, CLASSES),
            lambda: parametrizations.weight_norm(nn.Linear(width, CLASSES)),
            lambda: nn.Sequential(nn.Dropout(0.2), nn.Linear(width, CLASSES)),
            lambda: nn.Sequential(nn.BatchNorm1d(width), nn.Linear(width, CLASSES)),
        )()
    if draw.chance(0.1):
        parts.insert(0, nn.Identity())
    if draw.chance(0.6):
        return nn.Sequential(
            *parts, head, *([draw.among(nn.Tanh(), nn.ReLU(inplace=True))] if draw.chance(0.1) else [])
        )
    return Root(parts, head, draw.among(*FUNCTIONS) if draw.chance(0.15) else None)


def vectors(draw: Draw) -> tuple[list[nn.Module], int]:
    width = 4
    parts: list[nn.Module] = [nn.Flatten()] if draw.chance(0.3) else []
    for _ in range(draw.of.randint(0, 3)):
        if draw.chance(0.3):
            new = draw.among(4, 5, 6)
            parts.append(nn.Linear(width, new, bias=draw.chance(0.7)))
            width = new
        parts.append(layer(draw, width, parts, draw.of.randint(0, 2)))
    return parts, width


def layer(draw: Draw, width: int, before: Sequence[nn.Module], depth: int) -> nn.Module:
    """A layer of vectors that keeps their width; plain ones are the most frequent."""
    kind = draw.of.random()
    if kind < 0.35:
        linear: nn.Module = draw.among(nn.Linear, nn.Linear, DrawnLinear)(width, width, bias=draw.chance(0.8))
        return linear
    if kind < 0.55:
        activation: nn.Module = draw.among(nn.ReLU(), nn.ReLU(inplace=True), nn.Tanh())
        return activation
    if kind < 0.68:
        return norm(draw, width)
    if kind < 0.78 and depth:
        inner = layer(draw, width, before, depth - 1)
        wrappers = (
            *(Residual, Twice, WithoutGradient, ByMode, InEvaluation, SkippedAtRandom, ByGradientMode, WithOption),
            *(nn.Sequential, Checkpointed),
        )
        wrapped: nn.Module = draw.among(*wrappers)(inner)
        return wrapped
    alike = [part for part in before if type(part) is nn.Linear and part.in_features == part.out_features == width]
    if alike and kind < 0.86:
        again: nn.Module = draw.among(tied, lambda other: other, UsesWeightOf)(draw.among(*alike))
        return again
    made: nn.Module = draw.among(
        lambda: nn.Dropout(0.3),
        Dropped,
        Noisy,
        MovingScale,
        lambda: Counting(draw.among(0.0, 0.1), draw.among("in place", "anew"), draw.chance(0.7)),
        lambda: Function(draw.among(*FUNCTIONS)),
        lambda: ShiftedLinear(width, width),
        lambda: nn.Linear(width, width).requires_grad_(False),
        lambda: parametrizations.weight_norm(nn.Linear(width, width)),
        lambda: parametrizations.spectral_norm(nn.Linear(width, width)),
        lambda: parametrized(nn.Linear(width, width)),
        lambda: nn.Identity(),
    )()
    return made


def tied(other: nn.Linear) -> nn.Module:
    made = nn.Linear(other.in_features, other.out_features)
    made.weight = other.weight
    return made


def parametrized(part: nn.Module) -> nn.Module:
    return parametrize.register_parametrization(part, "weight", Doubled())


def norm(draw: Draw, width: int) -> nn.Module:
    made: nn.Module = draw.among(
        lambda: nn.BatchNorm1d(width, **odd(draw)),
        lambda: nn.LayerNorm(width, eps=draw.among(1e-5, 0.1), elementwise_affine=draw.chance(0.7)),
    )()
    if draw.chance(0.1) and isinstance(made, nn.BatchNorm1d):
        made.track_running_stats = not made.track_running_stats
    return made


def odd(draw: Draw) -> dict[str, Any]:
    """Settings of a batch norm, mostly the usual ones."""
    if draw.chance(0.5):
        return {}
    return {
        "affine": draw.chance(0.7),
        "momentum": draw.among(0.1, 0.4, 0.0, None),
        "track_running_stats": draw.chance(0.7),
        "eps": draw.among(1e-5, 0.1),
    }


def images(draw: Draw) -> tuple[list[nn.Module], int]:
    channels, side = 2, 6
    parts: list[nn.Module] = []
    for _ in range(draw.of.randint(1, 2)):
        new = draw.among(2, 4)
        parts.append(convolution(draw, channels, new))
        channels = new
        for _ in range(draw.of.randint(0, 3)):
            parts.append(of_images(draw, channels))
        if draw.chance(0.6) and shape(parts, side, side)[-1] > 2:
            parts.append(pooling(draw))
    if draw.chance(0.3):
        means = (lambda values: values.mean((2, 3)), lambda values: values.mean(3).mean(2))
        return [*parts, Function(draw.among(*means))], channels
    flatten = draw.among(nn.Flatten(), nn.Flatten(), Function(lambda values: torch.flatten(values, 1)))
    return [*parts, flatten], shape(parts, side, side).numel()


def shape(parts: Sequence[nn.Module], *sides: int) -> torch.Size:
    with torch.no_grad():
        outputs: Tensor = nn.Sequential(*parts).eval()(torch.zeros(2, 2, *sides))
    return outputs[0].shape


def sequences(draw: Draw) -> tuple[list[nn.Module], int]:
    """Convolutions over time."""
    channels, parts = 2, list[nn.Module]()
    for _ in range(draw.of.randint(1, 2)):
        new = draw.among(2, 4)
        options = draw.among({}, {"groups": 2}, {"stride": 2}, {"dilation": 2}, {"padding_mode": "circular"})
        parts.append(nn.Conv1d(channels, new, 3, padding=2, bias=draw.chance(0.6), **options))
        channels = new
        if draw.chance(0.7):
            parts.append(draw.among(nn.ReLU(), nn.ReLU(inplace=True), nn.Tanh(), nn.BatchNorm1d(channels)))
        if draw.chance(0.7):
            parts.append(
                draw.among(
                    nn.MaxPool1d(2),
                    nn.MaxPool1d(2, stride=1),
                    nn.MaxPool1d(3, padding=1),
                    nn.MaxPool1d(2, ceil_mode=True),
                    Function(lambda values: F.max_pool1d(values, 2)),
                    nn.AvgPool1d(2),
                )
            )
        if draw.chance(0.2):
            parts.append(Function(draw.among(*FUNCTIONS)))
    if draw.chance(0.6):
        means = (
            lambda values: values.mean(2),
            lambda values: values.mean(-1),
            lambda values: values.mean(2, True)[..., 0],
        )
        return [*parts, Function(draw.among(*means))], channels
    return [*parts, nn.Flatten()], shape(parts, 12).numel()


def convolution(draw: Draw, channels: int, new: int) -> nn.Module:
    options: dict[str, Any] = {"padding": 1, "bias": draw.chance(0.6)}
    if draw.chance(0.4):
        options |= draw.among(
            {"padding": "same"},
            {"padding_mode": "reflect"},
            {"groups": 2},
            {"dilation": 2, "padding": 2},
            {"stride": 2},
        )
    kind = ScaledConvolution if draw.chance(0.1) else nn.Conv2d
    return kind(channels, new, 3, **options)


def of_images(draw: Draw, channels: int) -> nn.Module:
    made: nn.Module = draw.among(
        nn.ReLU,
        lambda: nn.ReLU(inplace=True),
        lambda: nn.BatchNorm2d(channels, **odd(draw)),
        lambda: nn.BatchNorm2d(channels, **odd(draw)),
        lambda: nn.GroupNorm(2, channels),
        lambda: nn.InstanceNorm2d(channels, track_running_stats=draw.chance(0.5), affine=draw.chance(0.5)),
        lambda: nn.Dropout2d(0.3),
        lambda: Residual(nn.Conv2d(channels, channels, 1)),
        lambda: Function(draw.among(*FUNCTIONS)),
        MovingScale,
    )()
    if draw.chance(0.1) and isinstance(made, nn.BatchNorm2d):
        made.track_running_stats = not made.track_running_stats
    return made


def pooling(draw: Draw) -> nn.Module:
    made: nn.Module = draw.among(
        lambda: nn.MaxPool2d(2),
        lambda: nn.MaxPool2d(2),
        lambda: nn.MaxPool2d(3, stride=1, padding=1),
        lambda: nn.MaxPool2d(2, ceil_mode=True),
        lambda: nn.MaxPool2d(2, dilation=1, stride=1),
        lambda: nn.AvgPool2d(2),
        lambda: nn.AdaptiveAvgPool2d(2),
        lambda: Function(lambda values: F.max_pool2d(values, 2)),
        lambda: Function(lambda values: F.max_pool2d(values, 2, stride=1)),
        lambda: Function(lambda values: F.max_pool2d(values, 2, ceil_mode=True)),
    )()
    return made


class Words(nn.Module):
    """A table of words, and one vector of each text."""

    def __init__(self, table: nn.Module, way: str) -> None:
        super().__init__()
        self.table, self.way = table, way

    def forward(self, inputs: Tensor) -> Tensor:
        found: Tensor = self.table(inputs)
        if self.way == "mean":
            return found.mean(1)
        if self.way == "twice":
            both: Tensor = found.mean(1) + self.table(inputs.flip(1)).sum(1)
            return both
        return found.sum(1)


def texts(draw: Draw) -> tuple[list[nn.Module], int]:
    width = 4
    options: dict[str, Any] = {}
    if draw.chance(0.6):
        options = draw.among(
            {"padding_idx": 0},
            {"padding_idx": 3},
            {"max_norm": 1.0},
            {"scale_grad_by_freq": True},
            {"sparse": True},
            {"max_norm": 0.5, "norm_type": 1.0, "padding_idx": 1},
        )
    table = nn.Embedding(12, width, **options)
    parts: list[nn.Module] = [Words(table, draw.among("mean", "mean", "sum", "twice"))]
    if draw.chance(0.2):
        table.requires_grad_(False)
    for _ in range(draw.of.randint(0, 2)):
        parts.append(layer(draw, width, parts, 1))
    return parts, width


# What is added from outside.


def halved(*given: Any) -> Any:
    value = given[-1]
    return value / 2 if isinstance(value, Tensor) else tuple(None if each is None else each / 2 for each in value)


def in_place(_: nn.Module, inputs: Any, outputs: Tensor) -> None:
    outputs.mul_(0.5)


def noticed(*given: Any) -> None:
    """A hook that only looks."""


HOOKS: Sequence[Callable[[nn.Module], Any]] = (
    lambda part: part.register_forward_hook(lambda own, inputs, outputs: outputs / 2),
    lambda part: part.register_forward_hook(in_place),
    lambda part: part.register_forward_hook(noticed),
    lambda part: part.register_forward_pre_hook(
        lambda own, inputs: halved(inputs) if inputs[0].is_floating_point() else None
    ),
    lambda part: part.register_full_backward_hook(lambda own, inputs, outputs: halved(inputs)),
    lambda part: part.register_full_backward_pre_hook(lambda own, outputs: halved(outputs)),
    lambda part: part.register_full_backward_pre_hook(noticed),
)


def own_forward(part: nn.Module) -> None:
    usual = part.forward
    part.forward = lambda *given: 0.7 * usual(*given)


# Phases.


def some_penalty(trained: Tensors, client: Client) -> Tensor:
    return 0.05 * torch.stack([tensor.abs().sum() for tensor in trained.values()]).sum()


def optimizer(draw: Draw) -> Optimizer:
    if draw.chance(0.1):
        # With a small epsilon, Adam makes steps of rounding errors.
        made: Optimizer = draw.among(adam(0.01, epsilon=0.01), yogi(0.01, epsilon=0.01))
        return made
    momentum = draw.among(0.0, 0.0, 0.9)
    return SGD(
        draw.among(0.02, 0.1),
        momentum=momentum,
        nesterov=bool(momentum) and draw.chance(0.5),
        weight_decay=draw.among(0.0, 0.0, 0.1),
        decayed=draw.among(EVERYTHING, WEIGHTS, HEAD),
        clip=draw.among(None, None, 0.2),
        rates=draw.among((), (), ((HEAD, 0.3),), ((WEIGHTS, 0.5), (BODY, 0.0))),
        schedule=draw.among(exponential(1.0), exponential(0.7)),
    )


def selection(draw: Draw, names: Sequence[str]) -> Selector:
    first, seed = draw.of.randrange(len(names)), draw.of.randrange(1000)

    def some(_: object, universe: frozenset[str]) -> frozenset[str]:
        chosen = random.Random(seed)
        return frozenset(name for name in sorted(universe) if chosen.random() < 0.4)

    made: Selector = draw.among(
        *(NETWORK, NETWORK, HEAD, BODY, WEIGHTS & NETWORK),
        Selector("suffix", lambda network, universe: universe & frozenset(names[first:])),
        Selector("some", some) & NETWORK,
    )
    return made


def phase(draw: Draw, names: Sequence[str]) -> Phase:
    near: Sequence[Penalty | None] = (Proximal(0.3), Proximal(0.3, to="zero", on=WEIGHTS), Proximal(0.3, to="initial"))
    view = PERSONAL if draw.chance(0.15) else PLAIN
    return Phase(
        view.place(selection(draw, names)),
        optimizer(draw),
        epochs=draw.among(None, 1, 2, 2),
        steps=draw.among(None, None, None, 1, 4),
        penalty=draw.among(None, None, None, *near, some_penalty),
        project=draw.among(None, None, None, None, lambda name, tensor: tensor.clamp(-0.4, 0.4)),
        until=draw.among(None, None, None, lambda losses: len(losses) >= 2),
        carry=draw.chance(0.2),
        view=view,
        samples=(lambda client: client.train.take(slice(0, 5))) if draw.chance(0.1) else (lambda client: client.train),
    )


# Clients.


def samples(draw: Draw, family: str, count: int) -> Samples:
    numbers = draw.numbers()
    targets = torch.randint(CLASSES, (count,), generator=numbers)
    if draw.chance(0.05):
        targets[0] = -100
    if family == "sequences":
        return Samples(torch.randn(count, 2, 12, generator=numbers, dtype=torch.float64), targets)
    if family == "texts":
        return Samples(torch.randint(12, (count, 5), generator=numbers), targets)
    if family == "vectors":
        return Samples(torch.randn(count, 4, generator=numbers, dtype=torch.float64), targets)
    inputs = torch.randn(count, 2, 6, 6, generator=numbers, dtype=torch.float64)
    return Samples(
        inputs, targets, preparation=draw.among(Preparation(), Preparation(), Preparation(crop=1, flip=True))
    )


@dataclass(frozen=True)
class Drawn:
    """A case: clients of one task, what they hold, and the phases that they train."""

    clients: Sequence[Client]
    tensors: Sequence[Tensors]
    phases: Sequence[Phase]
    text: str


def drawn(seed: int) -> Drawn:
    """The case of a seed; every call makes it anew."""
    draw = Draw(random.Random(seed))
    family = draw.among("vectors", "vectors", "images", "images", "sequences", "texts")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = network(draw, family).double()
    if draw.chance(0.25):
        for _ in range(draw.of.randint(1, 2)):
            draw.among(*HOOKS)(draw.among(*module.modules()))
    module.train(draw.chance(0.7))
    loss = F.cross_entropy if draw.chance(0.9) else smoothed
    task = Task(
        module,
        loss=loss,
        buffers=draw.among("follow", "follow", "local", "batch"),
        frozen_norm=draw.among("train", "eval"),
    )
    if draw.chance(0.05):
        own_forward(draw.among(*task.module.modules()))
    batching = Batching(draw.among(3, 4), drop_last=draw.chance(0.2))
    clients, tensors = [], []
    for number in range(draw.of.randint(1, 3)):
        held, received, twin = (shifted(task.weights, draw) for _ in range(3))
        own = held | prefixed("personal/", twin)
        known = samples(draw, family, draw.among(3, 7, 12))
        moment = Moment(1, 4, seed)
        clients.append(Client(number, task, known, known.take(slice(0)), moment, batching, own, {}, received))
        tensors.append(own)
    phases = [phase(draw, task.network.names) for _ in range(draw.among(1, 1, 2))]
    return Drawn(clients, tensors, phases, f"{module}\n{phases}")


def shifted(weights: Tensors, draw: Draw) -> Tensors:
    numbers = draw.numbers()
    return {
        name: tensor + 0.1 * torch.rand(tensor.shape, generator=numbers).to(tensor)
        if tensor.is_floating_point()
        else tensor.clone()
        for name, tensor in weights.items()
    }


def smoothed(outputs: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(outputs, targets, label_smoothing=0.1)
