"""Is a network a plain chain of layers? Then it can be run backwards by hand."""

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from ..core.buffers import Snapshot
from .eligibility import kind_of, known_layer, plain_container, state_of
from .layers import (
    BatchNorm,
    Convolution,
    Flatten,
    Gradients,
    Layer,
    Linear,
    MaxPool,
    Mean,
    MeanOfWords,
    OverTime,
    ReLU,
    Weighted,
)


@dataclass(frozen=True)
class Chain:
    layers: Sequence[Layer]

    def accepts(self, dimensions: int) -> bool:
        """Whether each layer gets as many dimensions as it expects, from the inputs to a row of scores."""
        for layer in self.layers:
            if layer.takes is not None and dimensions != layer.takes:
                return False
            dimensions = layer.gives(dimensions)
        return dimensions == 2

    def first_trained(self) -> int:
        """The first layer that is trained. Before it, no gradient is needed."""
        return next((at for at, layer in enumerate(self.layers) if layer.trained), len(self.layers))

    def step(self, inputs: Tensor, targets: Tensor, first: int, take: Gradients) -> float:
        """The cross-entropy of a batch. Gradients are passed on layer by layer, from the last to the `first`."""
        kept = []
        for layer in self.layers:
            inputs, needs = layer.forward(inputs)
            kept.append(needs)
        scores = torch.log_softmax(inputs, 1)
        loss = float(F.nll_loss(scores, targets))
        gradient = scores.exp_().scatter_(1, targets.unsqueeze(1), -1.0, reduce="add").div_(len(targets))
        for at in range(len(self.layers) - 1, first - 1, -1):
            gradient = self.layers[at].backward(gradient, kept[at], at > first, take)
        return loss


class Chains:
    """The chains of modules, computed once for each state of a module: its modes and attributes."""

    def __init__(self) -> None:
        self._found: dict[tuple[nn.Module, Hashable], Chain | None] = {}

    def of(self, module: nn.Module) -> Chain | None:
        """The layers of a module as it is now, if they are a plain chain. Its modes must be those of its use."""
        state = state_of(module)
        if state is None:
            return None
        if (module, state) not in self._found:
            self._found[module, state] = _chain(module, state)
        return self._found[module, state]


def _chain(module: nn.Module, state: Hashable) -> Chain | None:
    alone = _of_module(module)
    layers = [alone] if alone else _traced(module, state)
    return Chain(_cheaper(layers)) if layers else None


def _traced(module: nn.Module, state: Hashable) -> list[Layer]:
    """The layers of a module, from its forward pass. A forward pass with side effects is not a chain."""
    snapshot, numbers = Snapshot(module), random.getstate()
    try:
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            noise = torch.get_rng_state()
            layers = _layers(module)
            untouched = torch.equal(noise, torch.get_rng_state()) and random.getstate() == numbers
    finally:
        snapshot.restore_()
    return layers if untouched and state_of(module) == state else []


class _Tracer(fx.Tracer):
    """Refuse what a traced graph does not show: contexts that change autograd or number types."""

    def is_leaf_module(self, part: nn.Module, place: str) -> bool:
        return known_layer(part) or super().is_leaf_module(part, place)

    def create_node(self, *arguments: Any, **named: Any) -> fx.Node:
        if not torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"):
            raise fx.proxy.TraceError("a context of its own")
        return super().create_node(*arguments, **named)


def _layers(module: nn.Module) -> list[Layer]:
    tracer, parts = _Tracer(), dict(module.named_modules())
    if not all(plain_container(part) or tracer.is_leaf_module(part, place) for place, part in parts.items()):
        return []
    try:
        nodes = list(tracer.trace(module).nodes)
    except Exception:
        # Tracing a module that was not written for it may raise any error; then it is not a chain.
        return []
    arguments, inner, output = nodes[0], nodes[1:-1], nodes[-1]
    linked = all(list(node.users) == [after] for node, after in pairwise(nodes))
    if arguments.op != "placeholder" or output.op != "output" or output.args != (nodes[-2],) or not linked:
        return []
    layers: list[Layer] = []
    while inner:
        node, *inner = inner
        if inner and node.op == "call_module" and kind_of(parts[node.target]) is nn.Embedding:
            layer = _mean_of_words(parts[node.target], inner.pop(0))
        else:
            layer = _of_module(parts[node.target]) if node.op == "call_module" else _of_function(node)
        if layer is None:
            return []
        layers.append(layer)
    weights = [weight for layer in layers for weight in _weights(layer)]
    return layers if len(set(weights)) == len(weights) else []


def _weights(layer: Layer) -> list[nn.Parameter]:
    inner = _inner(layer)
    return list(inner.module.parameters()) if isinstance(inner, Weighted) else []


_SIZES = ("stride", "padding")
_POOLING = {
    "kernel_size": None,
    "stride": None,
    "padding": 0,
    "dilation": 1,
    "ceil_mode": False,
    "return_indices": False,
}
"""The arguments of `max_pool1d` and `max_pool2d` in their order, with their defaults."""
_MEANS = (((2, 3),), 4), ((2,), 3)
"""Arguments of `mean`, and the dimensions of what is then averaged over all its places."""


def _of_module(part: Any) -> Layer | None:
    if not known_layer(part):
        return None
    kind = kind_of(part)
    if kind in (nn.Conv1d, nn.Conv2d) and part.padding_mode == "zeros" and not isinstance(part.padding, str):
        return Convolution(part) if kind is nn.Conv2d else OverTime(Convolution(part))
    if kind is nn.BatchNorm2d and part.affine and part.momentum is not None:
        # Statistics that a layer has but does not track are used in evaluation alone.
        return BatchNorm(part) if part.track_running_stats == (part.running_mean is not None) else None
    if kind is nn.Linear:
        return Linear(part)
    if kind is nn.ReLU:
        return ReLU()
    if kind is nn.Flatten and (part.start_dim, part.end_dim) == (1, -1):
        return Flatten()
    if kind in (nn.MaxPool1d, nn.MaxPool2d) and part.dilation == 1 and not part.ceil_mode and not part.return_indices:
        return _pooling(kind is nn.MaxPool1d, part.kernel_size, part.stride, part.padding)
    return None


def _pooling(over_time: bool, size: Any, stride: Any, padding: Any) -> Layer:
    if not over_time:
        return MaxPool(_pair(size), _pair(stride), _pair(padding))
    length, step, around = (each if isinstance(each, int) else each[0] for each in (size, stride, padding))
    return OverTime(MaxPool((1, length), (1, step), (0, around)))


def _of_function(node: fx.Node) -> Layer | None:
    rest, named = node.args[1:], node.kwargs
    if node.op == "call_method" and node.target == "mean" and not named:
        return next((Mean(dimensions) for arguments, dimensions in _MEANS if rest == arguments), None)
    if node.op != "call_function":
        return None
    if node.target in (F.relu, torch.relu) and not rest and not (named.keys() - {"inplace"}):
        return ReLU()
    if node.target is torch.flatten and rest == (1,) and not named:
        return Flatten()
    if node.target in (F.max_pool1d, F.max_pool2d):
        given: dict[str, Any] = dict(zip(_POOLING, rest, strict=False)) | dict(named)
        if all(given[name] == _POOLING.get(name, ()) for name in given if name not in ("kernel_size", *_SIZES)):
            size = given["kernel_size"]
            stride, padding = given.get("stride") or size, given.get("padding", 0)
            return _pooling(node.target is F.max_pool1d, size, stride, padding)
    return None


def _mean_of_words(part: Any, after: fx.Node) -> Layer | None:
    plain = known_layer(part) and part.max_norm is None and not part.scale_grad_by_freq
    mean = after.op == "call_method" and after.target == "mean" and after.args[1:] == (1,) and not after.kwargs
    return MeanOfWords(part) if plain and mean else None


def _cheaper(layers: Sequence[Layer]) -> list[Layer]:
    """Pooling before ReLU, where the largest number and its gradient are the same, and with the convolution before."""
    ordered: list[Layer] = []
    for layer in layers:
        pool, over_time = _inner(layer), isinstance(layer, OverTime)
        if not isinstance(pool, MaxPool):
            ordered.append(layer)
            continue
        after = [ordered.pop()] if ordered and isinstance(ordered[-1], ReLU) else []
        last = _inner(ordered[-1]) if ordered and isinstance(ordered[-1], OverTime) == over_time else None
        if isinstance(last, Convolution) and last.pool is None:
            both = Convolution(last.module, pool)
            ordered[-1] = OverTime(both) if over_time else both
        else:
            ordered.append(layer)
        ordered += after
    return [
        ReLU(in_place=True) if isinstance(layer, ReLU) and isinstance(_inner(before), Weighted | MaxPool) else layer
        for before, layer in pairwise([None, *ordered])
        if layer
    ]


def _inner(layer: Layer | None) -> Layer | None:
    return layer.of if isinstance(layer, OverTime) else layer


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)
