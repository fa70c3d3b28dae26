"""Is a network a plain chain of layers? Then it can be run backwards by hand."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from ..core.task import Task
from .layers import BatchNorm, Convolution, Flatten, Gradients, Layer, Linear, MaxPool, MeanOfWords, ReLU, Weighted
from .prefix import restored


@dataclass(frozen=True)
class Chain:
    layers: Sequence[Layer]

    def first_trained(self) -> int:
        """Before that layer, no gradient is needed."""
        return next((at for at, layer in enumerate(self.layers) if layer.trained), len(self.layers))

    def step(self, inputs: Tensor, targets: Tensor, first: int, take: Gradients) -> float:
        """The cross-entropy of a batch; its gradients are handed over layer by layer, from the last to the `first`."""
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


def chain_for(task: Task, part: nn.Module) -> Chain | None:
    """The layers of a task's module or a part of it, if they are a plain chain; found out once."""
    if part not in task.memo:
        with restored(task.module):
            task.memo[part] = chain_of(part)
    found: Chain | None = task.memo[part]
    return found


def chain_of(module: nn.Module) -> Chain | None:
    """The layers of a network that is nothing but a chain of known ones."""
    alone = _of_module(module)
    layers = [alone] if alone else _layers(module)
    return Chain(_cheaper(layers)) if layers else None


def _layers(module: nn.Module) -> list[Layer] | None:
    try:
        nodes = list(fx.symbolic_trace(module).graph.nodes)
    except Exception:
        # Anything may happen in a module that was not written to be traced; then it is no chain.
        return None
    arguments, inner, output = nodes[0], nodes[1:-1], nodes[-1]
    linked = all(list(node.users) == [after] for node, after in pairwise(nodes))
    if arguments.op != "placeholder" or output.op != "output" or output.args != (nodes[-2],) or not linked:
        return None
    layers: list[Layer] = []
    parts = dict(module.named_modules())
    while inner:
        node, *inner = inner
        if inner and node.op == "call_module" and type(parts[node.target]) is nn.Embedding:
            layer = _mean_of_words(parts[node.target], inner.pop(0))
        else:
            layer = _of_module(parts[node.target]) if node.op == "call_module" else _of_function(node)
        if layer is None:
            return None
        layers.append(layer)
    weights = [weight for layer in layers if isinstance(layer, Weighted) for weight in layer.module.parameters()]
    return layers if len(set(weights)) == len(weights) else None


def _of_module(part: Any) -> Layer | None:
    if part._forward_hooks or part._forward_pre_hooks or part._backward_hooks:
        return None
    kind = type(part)
    if kind is nn.Conv2d and part.padding_mode == "zeros" and not isinstance(part.padding, str):
        return Convolution(part)
    if kind is nn.BatchNorm2d and part.affine and part.momentum is not None:
        return BatchNorm(part)
    if kind is nn.Linear:
        return Linear(part)
    if kind is nn.ReLU:
        return ReLU()
    if kind is nn.Flatten and (part.start_dim, part.end_dim) == (1, -1):
        return Flatten()
    if kind is nn.MaxPool2d and part.dilation == 1 and not part.ceil_mode and not part.return_indices:
        return MaxPool(_pair(part.kernel_size), _pair(part.stride), _pair(part.padding))
    return None


def _of_function(node: fx.Node) -> Layer | None:
    rest, named = node.args[1:], node.kwargs
    if node.op != "call_function":
        return None
    if node.target in (F.relu, torch.relu) and not rest and not (named.keys() - {"inplace"}):
        return ReLU()
    if node.target is torch.flatten and rest == (1,) and not named:
        return Flatten()
    if node.target is F.max_pool2d and not named.get("ceil_mode") and not named.get("return_indices"):
        given = dict(zip(("kernel_size", "stride", "padding"), rest, strict=False)) | dict(named)
        if len(rest) <= 3 and given.get("dilation", 1) == 1:
            size: Any = given["kernel_size"]
            return MaxPool(_pair(size), _pair(given.get("stride") or size), _pair(given.get("padding", 0)))
    return None


def _mean_of_words(part: Any, after: fx.Node) -> Layer | None:
    plain = part.max_norm is None and not part.scale_grad_by_freq
    mean = after.op == "call_method" and after.target == "mean" and after.args[1:] == (1,) and not after.kwargs
    return MeanOfWords(part) if plain and mean else None


def _cheaper(layers: Sequence[Layer]) -> list[Layer]:
    """Pooling before ReLU, where the largest number and its gradient are the same, and with the convolution before."""
    ordered: list[Layer] = []
    for layer in layers:
        after = [ordered.pop()] if isinstance(layer, MaxPool) and ordered and isinstance(ordered[-1], ReLU) else []
        last = ordered[-1] if ordered else None
        if isinstance(layer, MaxPool) and isinstance(last, Convolution) and last.pool is None:
            ordered[-1] = Convolution(last.module, layer)
        else:
            ordered.append(layer)
        ordered += after
    return [
        ReLU(in_place=True) if isinstance(layer, ReLU) and isinstance(before, Weighted | MaxPool) else layer
        for before, layer in pairwise([None, *ordered])
        if layer
    ]


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)
