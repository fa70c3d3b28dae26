"""Is a network a plain chain of layers? Then it can be run backwards by hand, without what automatic gradients cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

LARGE = 1 << 18
"""From so many weights on, a small batch is multiplied faster from the other side."""


class Gradients(Protocol):
    """What becomes of gradients, at once: the input's gradient of a layer is computed before its weights change."""

    def __call__(self, parameter: nn.Parameter, gradient: Tensor) -> None: ...

    def outer(self, parameter: nn.Parameter, left: Tensor, right: Tensor) -> None:
        """The gradient is left' right, which need not be written down."""

    def rows(self, parameter: nn.Parameter, rows: Tensor, gradient: Tensor) -> None:
        """The gradient of some rows, which may come up several times."""


class Layer(Protocol):
    @property
    def trained(self) -> bool: ...

    def forward(self, inputs: Tensor) -> tuple[Tensor, Any]:
        """The answer, and what the way back needs of it."""

    def backward(self, gradient: Tensor, kept: Any, needed: bool, take: Gradients) -> Tensor:
        """The gradient of the inputs, if it is needed."""


@dataclass(frozen=True)
class Chain:
    layers: Sequence[Layer]

    def step(self, inputs: Tensor, targets: Tensor, take: Gradients) -> float:
        """The cross-entropy of a batch; its gradients are handed over layer by layer, from the last on."""
        first = next((at for at, layer in enumerate(self.layers) if layer.trained), len(self.layers))
        kept = []
        for layer in self.layers:
            inputs, needs = layer.forward(inputs)
            kept.append(needs)
        scores = torch.log_softmax(inputs, 1)
        loss = float(F.nll_loss(scores, targets))
        picked = targets[:, None]
        gradient = scores.exp_().scatter_add_(1, picked, scores.new_full((1, 1), -1.0).expand_as(picked))
        gradient.div_(len(targets))
        for at in range(len(self.layers) - 1, first - 1, -1):
            gradient = self.layers[at].backward(gradient, kept[at], at > first, take)
        return loss


def chain_of(module: nn.Module) -> Chain | None:
    """The layers of a network that is nothing but a chain of known ones."""
    alone = _of_module(module)
    layers = [alone] if alone else _layers(module)
    return Chain(_cheaper(layers)) if layers else None


@dataclass(frozen=True)
class _Weighted:
    module: Any

    @property
    def trained(self) -> bool:
        return any(parameter.requires_grad for parameter in self.module.parameters())


@dataclass(frozen=True)
class _Plain:
    @property
    def trained(self) -> bool:
        return False


@dataclass(frozen=True)
class _Pool(_Plain):
    size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]

    def forward(self, inputs: Tensor) -> tuple[Tensor, Any]:
        answer, places = torch.ops.aten.max_pool2d_with_indices(inputs, self.size, self.stride, self.padding)
        return answer, (inputs, places)

    def backward(self, gradient: Tensor, kept: Any, needed: bool, take: Gradients) -> Tensor:
        inputs, places = kept
        answer: Tensor = torch.ops.aten.max_pool2d_with_indices_backward(
            gradient, inputs, self.size, self.stride, self.padding, (1, 1), False, places
        )
        return answer


@dataclass(frozen=True)
class _Convolution(_Weighted):
    pool: _Pool | None = None
    """What follows at once. Every number's gradient goes to one place, so a bias has the sum of few for that of all."""

    def forward(self, inputs: Tensor) -> tuple[Tensor, Any]:
        maps = self.module(inputs)
        if self.pool is None:
            return maps, (inputs, None)
        answer, pooled = self.pool.forward(maps)
        return answer, (inputs, pooled)

    def backward(self, gradient: Tensor, kept: Any, needed: bool, take: Gradients) -> Tensor:
        part, (inputs, pooled) = self.module, kept
        if part.bias is not None and part.bias.requires_grad:
            take(part.bias, gradient.sum((0, 2, 3)))
        if self.pool:
            gradient = self.pool.backward(gradient, pooled, True, take)
        before, change, _ = torch.ops.aten.convolution_backward(
            gradient,
            inputs,
            part.weight,
            None,
            part.stride,
            part.padding,
            part.dilation,
            False,
            [0, 0],
            part.groups,
            [needed, part.weight.requires_grad, False],
        )
        if part.weight.requires_grad:
            take(part.weight, change)
        answer: Tensor = before
        return answer


class _BatchNorm(_Weighted):
    def forward(self, inputs: Tensor) -> tuple[Tensor, Any]:
        part = self.module
        moving = part.training or part.running_mean is None
        if moving and inputs.numel() == inputs.shape[1]:
            part(inputs)  # Which says that one number has no variance.
        if part.training and part.num_batches_tracked is not None:
            part.num_batches_tracked.add_(1)
        answer, *statistics = torch.ops.aten.native_batch_norm(
            inputs, part.weight, part.bias, part.running_mean, part.running_var, moving, part.momentum, part.eps
        )
        return answer, (inputs, moving, *statistics)

    def backward(self, gradient: Tensor, kept: Any, needed: bool, take: Gradients) -> Tensor:
        part, (inputs, moving, mean, scale) = self.module, kept
        wanted = [needed, part.weight.requires_grad, part.bias.requires_grad]
        before, *changes = torch.ops.aten.native_batch_norm_backward(
            gradient, inputs, part.weight, part.running_mean, part.running_var, mean, scale, moving, part.eps, wanted
        )
        for parameter, change in zip((part.weight, part.bias), changes, strict=True):
            if parameter.requires_grad:
                take(parameter, change)
        answer: Tensor = before
        return answer


class Linear(_Weighted):
    def forward(self, inputs: Tensor) -> tuple[Tensor, Any]:
        weight, bias = self.module.weight, self.module.bias
        if weight.numel() >= LARGE and len(inputs) < 32 and bias is not None:
            return torch.mm(weight, inputs.t()).t().add_(bias), inputs
        return F.linear(inputs, weight, bias), inputs

    def backward(self, gradient: Tensor, kept: Any, needed: bool, take: Gradients) -> Tensor:
        part = self.module
        before = gradient @ part.weight if needed else gradient
        if part.weight.requires_grad:
            take.outer(part.weight, gradient, kept)
        if part.bias is not None and part.bias.requires_grad:
            take(part.bias, gradient.sum(0))
        return before


class _MeanOfWords(_Weighted):
    """An embedding, and the mean over the words of a text."""

    def forward(self, inputs: Tensor) -> tuple[Tensor, Any]:
        return F.embedding_bag(inputs, self.module.weight, mode="mean"), inputs

    def backward(self, gradient: Tensor, kept: Any, needed: bool, take: Gradients) -> Tensor:
        words = kept.reshape(-1)
        texts = torch.arange(len(kept), device=kept.device).repeat_interleave(kept.shape[1])
        if self.module.padding_idx is not None:
            real = words != self.module.padding_idx
            words, texts = words[real], texts[real]
        take.rows(self.module.weight, words, (gradient / kept.shape[1])[texts])
        return gradient


class ReLU(_Plain):
    def forward(self, inputs: Tensor) -> tuple[Tensor, Any]:
        answer = inputs.relu()
        return answer, answer

    def backward(self, gradient: Tensor, kept: Any, needed: bool, take: Gradients) -> Tensor:
        answer: Tensor = torch.ops.aten.threshold_backward(gradient, kept, 0)
        return answer


class Flatten(_Plain):
    def forward(self, inputs: Tensor) -> tuple[Tensor, Any]:
        return inputs.reshape(len(inputs), -1), inputs

    def backward(self, gradient: Tensor, kept: Any, needed: bool, take: Gradients) -> Tensor:
        before = gradient.view(kept.shape)
        last = kept.dim() == 4 and kept.is_contiguous(memory_format=torch.channels_last)
        return before.contiguous(memory_format=torch.channels_last) if last else before


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
    weights = [weight for layer in layers if isinstance(layer, _Weighted) for weight in layer.module.parameters()]
    return layers if len(set(weights)) == len(weights) else None


def _of_module(part: Any) -> Layer | None:
    if part._forward_hooks or part._forward_pre_hooks or part._backward_hooks:
        return None
    kind = type(part)
    if kind is nn.Conv2d and part.padding_mode == "zeros" and not isinstance(part.padding, str):
        return _Convolution(part)
    if kind is nn.BatchNorm2d and part.affine and part.momentum is not None:
        return _BatchNorm(part)
    if kind is nn.Linear:
        return Linear(part)
    if kind is nn.ReLU:
        return ReLU()
    if kind is nn.Flatten and (part.start_dim, part.end_dim) == (1, -1):
        return Flatten()
    if kind is nn.MaxPool2d and part.dilation == 1 and not part.ceil_mode and not part.return_indices:
        return _Pool(_pair(part.kernel_size), _pair(part.stride), _pair(part.padding))
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
            return _Pool(_pair(size), _pair(given.get("stride") or size), _pair(given.get("padding", 0)))
    return None


def _mean_of_words(part: Any, after: fx.Node) -> Layer | None:
    plain = part.max_norm is None and not part.scale_grad_by_freq
    mean = after.op == "call_method" and after.target == "mean" and after.args[1:] == (1,) and not after.kwargs
    return _MeanOfWords(part) if plain and mean else None


def _cheaper(layers: Sequence[Layer]) -> list[Layer]:
    """Pooling before ReLU, where the largest number and its gradient are the same, and with the convolution before."""
    ordered: list[Layer] = []
    for layer in layers:
        after = [ordered.pop()] if isinstance(layer, _Pool) and ordered and isinstance(ordered[-1], ReLU) else []
        last = ordered[-1] if ordered else None
        if isinstance(layer, _Pool) and isinstance(last, _Convolution) and last.pool is None:
            ordered[-1] = _Convolution(last.module, layer)
        else:
            ordered.append(layer)
        ordered += after
    return ordered


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)
