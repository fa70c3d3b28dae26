"""Which library multiplies matrices? oneDNN where torch would take MKL on a processor that MKL does not know well.

Torch's `linear` is a product by MKL, which takes its AVX-512 kernels on Intel's processors alone; on AMD's, oneDNN is
about twice as fast. Both multiply and add in float32, in another order.
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


def linear(inputs: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """The same as torch's, of matrices and without autograd."""
    if _known(inputs, weight, bias, WORTHWHILE):
        return _product(inputs, weight, bias)
    return F.linear(inputs, weight, bias)


def fast_products(module: nn.Module) -> AbstractContextManager[object]:
    """A context in which modules multiply by the faster library; it does nothing where that has no use.

    Every call of torch takes a little longer inside, so the context is for networks with large linear layers.
    """
    large = (tensor.dim() == 2 and tensor.numel() >= WORTHWHILE_TRACKED >> 8 for tensor in module.parameters())
    return FastProducts() if _preferred() and any(large) else nullcontext()


class FastProducts(TorchFunctionMode):
    """Replaces `torch.nn.functional.linear`; every other function is torch's own."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Iterable[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if function is F.linear and not kwargs and 2 <= len(args) <= 3 and all(map(_plain, args)):
            inputs, weight, bias = (*args, None)[:3]
            if inputs.dim() >= 2 and weight.dim() == 2 and not _transformed():
                rows = inputs.reshape(-1, inputs.shape[-1])
                if _known(rows, weight, bias, WORTHWHILE_TRACKED):
                    return _tracked(rows, weight, bias).view(*inputs.shape[:-1], len(weight))
        return function(*args, **(kwargs or {}))


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
