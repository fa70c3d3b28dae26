"""How are a layer's forward and backward passes computed by hand, without the overhead of autograd?"""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .kernels import linear


class Gradients(Protocol):
    """What becomes of gradients, at once: the input's gradient of a layer is computed before its weights change."""

    def __call__(self, parameter: nn.Parameter, gradient: Tensor) -> None: ...

    def outer(self, parameter: nn.Parameter, left: Tensor, right: Tensor) -> None:
        """The gradient is left' right; the product need not be stored."""

    def rows(self, parameter: nn.Parameter, rows: Tensor, gradient: Tensor) -> None:
        """The gradient of some rows, which may come up several times."""


class Layer(Protocol):
    @property
    def takes(self) -> int | None:
        """How many dimensions its inputs have; None if any number will do."""

    def gives(self, dimensions: int) -> int:
        """How many dimensions its outputs have."""

    @property
    def trained(self) -> bool: ...

    def forward(self, inputs: Tensor) -> tuple[Tensor, Any]:
        """The output, and the values that the backward pass needs."""

    def backward(self, gradient: Tensor, kept: Any, needed: bool, take: Gradients) -> Tensor:
        """The gradient of the inputs, if it is needed."""


@dataclass(frozen=True)
class Weighted:
    module: Any

    @property
    def trained(self) -> bool:
        return any(parameter.requires_grad for parameter in self.module.parameters())

    def gives(self, dimensions: int) -> int:
        return dimensions


@dataclass(frozen=True)
class _Plain:
    @property
    def trained(self) -> bool:
        return False

    def gives(self, dimensions: int) -> int:
        return dimensions


@dataclass(frozen=True)
class MaxPool(_Plain):
    takes: ClassVar[int | None] = 4
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
class Convolution(Weighted):
    takes: ClassVar[int | None] = 4
    pool: MaxPool | None = None
    """The pooling that follows. Each of its gradients goes to one input, so a bias gradient is a sum of few values."""

    def forward(self, inputs: Tensor) -> tuple[Tensor, Any]:
        part = self.module
        if part.weight.dim() == 4:
            maps = part(inputs)
        else:
            stride, padding, dilation = self._geometry
            maps = torch.conv2d(inputs, self._weight, part.bias, stride, padding, dilation, part.groups)
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
            self._weight,
            None,
            *self._geometry,
            False,
            [0, 0],
            part.groups,
            [needed, part.weight.requires_grad, False],
        )
        if part.weight.requires_grad:
            take(part.weight, change if part.weight.dim() == 4 else change.squeeze(2))
        answer: Tensor = before
        return answer

    @property
    def _weight(self) -> Tensor:
        """The weight of a convolution over time, as of one over images of one row."""
        weight: Tensor = self.module.weight
        return weight if weight.dim() == 4 else weight.unsqueeze(2)

    @property
    def _geometry(self) -> tuple[tuple[int, ...], ...]:
        """Stride, padding and dilation."""
        part = self.module
        if part.weight.dim() == 4:
            return part.stride, part.padding, part.dilation
        return (1, *part.stride), (0, *part.padding), (1, *part.dilation)


class BatchNorm(Weighted):
    takes: ClassVar[int | None] = 4

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


class Linear(Weighted):
    takes: ClassVar[int | None] = 2

    def forward(self, inputs: Tensor) -> tuple[Tensor, Any]:
        return linear(inputs, self.module.weight, self.module.bias), inputs

    def backward(self, gradient: Tensor, kept: Any, needed: bool, take: Gradients) -> Tensor:
        part = self.module
        before = linear(gradient, part.weight.t()) if needed else gradient
        if part.weight.requires_grad:
            take.outer(part.weight, gradient, kept)
        if part.bias is not None and part.bias.requires_grad:
            take(part.bias, gradient.sum(0))
        return before


class MeanOfWords(Weighted):
    """An embedding, and the mean over the words of a text."""

    takes: ClassVar[int | None] = 2

    def forward(self, inputs: Tensor) -> tuple[Tensor, Any]:
        return F.embedding_bag(inputs, self.module.weight, mode="mean"), inputs

    def backward(self, gradient: Tensor, kept: Any, needed: bool, take: Gradients) -> Tensor:
        words, length = kept.reshape(-1), kept.shape[1]
        places = torch.arange(len(words), device=kept.device)
        if self.module.padding_idx is not None:
            places = (words != self.module.padding_idx).nonzero().squeeze(1)
            words = words.index_select(0, places)
        take.rows(self.module.weight, words, (gradient / length).index_select(0, places // length))
        return gradient


@dataclass(frozen=True)
class ReLU(_Plain):
    takes: ClassVar[int | None] = None
    in_place: bool = False
    """Set if nothing else needs the inputs. It is never set for the first layer, whose inputs are the data."""

    def forward(self, inputs: Tensor) -> tuple[Tensor, Any]:
        answer = inputs.relu_() if self.in_place else inputs.relu()
        return answer, answer

    def backward(self, gradient: Tensor, kept: Any, needed: bool, take: Gradients) -> Tensor:
        answer: Tensor = torch.ops.aten.threshold_backward(gradient, kept, 0)
        return answer


class Flatten(_Plain):
    takes: ClassVar[int | None] = None

    def gives(self, dimensions: int) -> int:
        return min(dimensions, 2)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Any]:
        return inputs.reshape(len(inputs), -1), inputs

    def backward(self, gradient: Tensor, kept: Any, needed: bool, take: Gradients) -> Tensor:
        before = gradient.view(kept.shape)
        last = kept.dim() == 4 and kept.is_contiguous(memory_format=torch.channels_last)
        return before.contiguous(memory_format=torch.channels_last) if last else before


@dataclass(frozen=True)
class Mean(_Plain):
    """The mean over all places of an image or over all moments of a sequence."""

    takes: int

    def gives(self, dimensions: int) -> int:
        return 2

    def forward(self, inputs: Tensor) -> tuple[Tensor, Any]:
        return inputs.mean(tuple(range(2, inputs.dim()))), inputs

    def backward(self, gradient: Tensor, kept: Any, needed: bool, take: Gradients) -> Tensor:
        share = gradient / (kept.numel() // gradient.numel())
        return torch.empty_like(kept).copy_(share.view(*share.shape, *[1] * (kept.dim() - 2)))


@dataclass(frozen=True)
class OverTime:
    """A convolution or a pooling of sequences: of images of one row, whose channels lie side by side."""

    of: Convolution | MaxPool
    takes: ClassVar[int | None] = 3

    @property
    def trained(self) -> bool:
        return self.of.trained

    def gives(self, dimensions: int) -> int:
        return dimensions

    def forward(self, inputs: Tensor) -> tuple[Tensor, Any]:
        row = inputs.unsqueeze(2).contiguous(memory_format=torch.channels_last)
        answer, kept = self.of.forward(row)
        return answer.squeeze(2), kept

    def backward(self, gradient: Tensor, kept: Any, needed: bool, take: Gradients) -> Tensor:
        row = gradient.unsqueeze(2).contiguous(memory_format=torch.channels_last)
        before = self.of.backward(row, kept, needed, take)
        return before.squeeze(2) if needed else gradient
