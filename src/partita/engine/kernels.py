"""Which kernels does a forward pass call? Faster ones than torch's choice, where everything about the call is known.

Torch's `linear` is a product by MKL, which takes its AVX-512 kernels on Intel's processors alone; on AMD's, oneDNN is
about twice as fast. Both multiply and add in float32, in another order. Of a convolution on a small image, weights that
only ever meet padding are left out: in the last stage of a ResNet on an image of one pixel, that is 8 of 9.
"""

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

WORTHWHILE = 1 << 20
"""From this number of multiplications on, a product by oneDNN is faster."""
WORTHWHILE_TRACKED = 1 << 22
"""The same with autograd, for which each such product is a call of Python."""
LARGE_KERNEL = 1 << 18
"""With fewer weights, a kernel is not examined."""


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Torch's `linear` of matrices, without autograd."""
    if _known(inputs, weight, bias, WORTHWHILE):
        return _product(inputs, weight, bias)
    return F.linear(inputs, weight, bias)


def fast_kernels(module: nn.Module) -> AbstractContextManager[object]:
    """A context in which modules call faster kernels; it does nothing where that has no use.

    Every call of torch takes a little longer inside, so the context is for networks with large layers. A table of
    words is looked up and not multiplied; where a layer shares it, there are other large ones.
    """
    tables = {id(part.weight) for part in module.modules() if isinstance(part, nn.Embedding)}
    large = (_large(weight) for weight in module.parameters() if id(weight) not in tables)
    return FastKernels() if any(large) else nullcontext()


def _large(weight: Tensor) -> bool:
    if weight.dim() == 2:
        return _preferred() and weight.numel() >= WORTHWHILE_TRACKED >> 8
    return weight.dim() == 4 and weight.numel() >= LARGE_KERNEL and weight.shape[2:].numel() > 1


class FastKernels(TorchFunctionMode):
    """Replaces `linear` and `conv2d`; every other function is torch's own."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        found = None
        if not kwargs and len(args) >= 2 and all(map(_plain, args[:3])):
            if function is F.linear and len(args) <= 3:
                found = _linear(*args)
            elif function is F.conv2d and len(args) == 7:
                found = _convolution(*args)
        return function(*args, **(kwargs or {})) if found is None else found


def _linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor | None:
    if inputs.dim() < 2 or weight.dim() != 2 or _transformed():
        return None
    rows = inputs.reshape(-1, inputs.shape[-1])
    if not _known(rows, weight, bias, WORTHWHILE_TRACKED):
        return None
    return _tracked(rows, weight, bias).view(*inputs.shape[:-1], len(weight))


Pair = tuple[int, int]


def _convolution(
    inputs: Tensor, weight: Tensor, bias: Tensor | None, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Tensor | None:
    """The convolution with the weights that meet the image; None if these are all, or if no module made the call."""
    pairs = all(type(each) is tuple and len(each) == 2 for each in (stride, padding, dilation))
    if inputs.dim() != 4 or weight.dim() != 4 or weight.numel() < LARGE_KERNEL or not pairs or _transformed():
        return None
    spans = [_span(*each) for each in zip(inputs.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)]
    if all(span is None for span in spans) or inputs.dtype != weight.dtype or torch.is_autocast_enabled("cpu"):
        return None
    (top, bottom, above), (left, right, beside) = (
        span or (0, size, around) for span, size, around in zip(spans, weight.shape[2:], padding, strict=True)
    )
    cut = (slice(None), slice(None), slice(top, bottom), slice(left, right))
    # Torch does not type the functions of autograd.
    answer: Tensor = _Cropped.apply(inputs, weight, bias, cut, (stride, (above, beside), dilation), groups)  # type: ignore[no-untyped-call]
    return answer


@cache
def _span(image: int, kernel: int, stride: int, padding: int, dilation: int) -> tuple[int, int, int] | None:
    """The first weight of a kernel that meets the image, the one after the last, and the padding that is left.

    None if all weights meet it, or if the others cannot be left out without a change of the output's size.
    """
    outputs = (image + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    places = [
        at for at in range(kernel) if any(0 <= to * stride - padding + at * dilation < image for to in range(outputs))
    ]
    if outputs < 1 or not places or len(places) == kernel:
        return None
    first, end = places[0], places[-1] + 1
    left = padding - first * dilation
    if left < 0 or (image + 2 * left - dilation * (end - first - 1) - 1) // stride + 1 != outputs:
        return None
    return first, end, left


class _Cropped(torch.autograd.Function):
    """A convolution with a part of its kernel; the other weights have no gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        cut: tuple[slice, ...],
        geometry: tuple[Pair, Pair, Pair],
        groups: int,
    ) -> Tensor:
        kernel = weight[cut].contiguous()
        ctx.save_for_backward(inputs, kernel, weight)
        ctx.arguments = cut, geometry, groups
        return torch.conv2d(inputs, kernel, bias, *geometry, groups)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (inputs, kernel, weight), (cut, geometry, groups) = ctx.saved_tensors, ctx.arguments
        wanted = ctx.needs_input_grad[:3]
        by_inputs, by_kernel, by_bias = torch.ops.aten.convolution_backward(
            gradient, inputs, kernel, [len(kernel)], *geometry, False, [0, 0], groups, wanted
        )
        by_weight = None
        if wanted[1]:
            by_weight = torch.zeros_like(weight)
            by_weight[cut] = by_kernel
        return by_inputs if wanted[0] else None, by_weight, by_bias if wanted[2] else None, None, None, None


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(inputs if ctx.needs_input_grad[1] else None, weight)
        return _product(inputs, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight = ctx.saved_tensors
        before, by_weight, by_bias = ctx.needs_input_grad
        return (
            linear(gradient, weight.t()) if before else None,
            linear(gradient.t(), inputs.t()) if by_weight else None,
            gradient.sum(0) if by_bias else None,
        )


def _tracked(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    needed = (inputs, weight) if bias is None else (inputs, weight, bias)
    if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in needed):
        return _product(inputs, weight, bias)
    # Torch does not type the functions of autograd.
    answer: Tensor = _Linear.apply(inputs, weight, bias)  # type: ignore[no-untyped-call]
    return answer


def _product(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    answer: Tensor = torch.ops.mkldnn._linear_pointwise(inputs, weight, bias, "none", [], None)
    return answer


def _plain(given: object) -> bool:
    return given is None or type(given) in (Tensor, nn.Parameter)


def _known(inputs: Tensor, weight: Tensor, bias: Tensor | None, least: int) -> bool:
    """Whether the product is large, of plain matrices, and oneDNN's has been seen to agree."""
    if inputs.dim() != 2 or weight.dim() != 2 or inputs.shape[0] * weight.numel() < least or not _preferred():
        return False
    tensors = (inputs, weight) if bias is None else (inputs, weight, bias)
    sizes = inputs.shape[1] == weight.shape[1] and (bias is None or bias.shape == weight.shape[:1])
    strided = all(
        tensor.dtype is torch.float32
        and tensor.device.type == "cpu"
        and tensor.layout is torch.strided
        and (tensor.is_contiguous() or tensor.t().is_contiguous())
        for tensor in tensors
    )
    exact = torch.get_float32_matmul_precision() == "highest" and not torch.is_autocast_enabled("cpu")
    return (
        sizes
        and strided
        and exact
        and _agrees(*inputs.shape, len(weight), inputs.is_contiguous(), weight.is_contiguous())
    )


def _transformed() -> bool:
    """Whether the call is inside of torch.func or of forward-mode differentiation."""
    inside = torch._C._functorch.peek_interpreter_stack() is not None
    return bool(inside or torch.autograd.forward_ad._current_level >= 0)


@cache
def _preferred() -> bool:
    """Whether torch multiplies by MKL, which is slow on this processor, and oneDNN can be called instead."""
    if platform.machine() not in ("x86_64", "AMD64") or not (torch._C.has_mkl and torch._C._has_mkldnn):
        return False
    try:
        maker = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return "AuthenticAMD" in maker and hasattr(torch.ops.mkldnn, "_linear_pointwise")


@cache
def _agrees(rows: int, width: int, outputs: int, inputs_by_rows: bool, weight_by_rows: bool) -> bool:
    """Whether both libraries give the same product of this shape, up to rounding. Tried once on random numbers."""
    draw = torch.Generator().manual_seed(0)

    def matrix(count: int, by_rows: bool) -> Tensor:
        made = torch.randn(count, width, generator=draw)
        return made if by_rows else made.t().contiguous().t()

    with torch.no_grad():
        inputs, weight = matrix(rows, inputs_by_rows), matrix(outputs, weight_by_rows)
        usual, found = F.linear(inputs, weight), _product(inputs, weight, None)
    return usual.shape == found.shape and torch.allclose(usual, found, rtol=1e-4, atol=1e-5 * width)
