"""How does a forward pass begin in the middle of a network? With tensors without values for what comes before.

A module that holds all trained ones need not be the end of the network: the last layers of a transformer are followed
by a decoder that also takes a table of words. So the network's own forward is called, on inputs that have a shape and
no values (torch's device `meta`). Modules before the first trained one answer with such tensors, and the first trained
one, or a module around it, is given features that were computed before. Whatever else needs a missing value is an error
of torch, never a wrong number; then the whole network is computed.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..core.network import BATCH_NORMS

WORTH = 64
"""Multiplications that must be saved for each number that is kept."""


@dataclass(frozen=True)
class Shape:
    """The shape of what a module returns: with a row for each sample, or the same for any number."""

    sizes: tuple[int, ...]
    by_sample: bool
    dtype: torch.dtype

    def blank(self, samples: int) -> Tensor:
        sizes = (samples, *self.sizes) if self.by_sample else self.sizes
        return torch.empty(sizes, dtype=self.dtype, device="meta")


class Resumed(nn.Module):
    """A network from one of its modules on; its input is what that module receives."""

    def __init__(self, network: nn.Module, start: nn.Module, skipped: Mapping[nn.Module, Shape], given: Shape) -> None:
        super().__init__()
        self.network = network
        # Not as modules of its own: they are the network's.
        self._places = (start, dict(skipped), given)

    def forward(self, features: Tensor) -> Tensor:
        start, skipped, given = self._places
        with ExitStack() as changes:
            for part, shape in skipped.items():
                changes.enter_context(_answering(part, shape, len(features)))
            changes.enter_context(_receiving(start, features))
            outputs: Tensor = self.network(given.blank(len(features)))
        return outputs


@dataclass
class Trace:
    """What a forward pass called before it came to some modules."""

    path: list[nn.Module] = field(default_factory=list)
    """The first of the modules, and the calls around it from the inside, without the network's."""
    before: list[tuple[nn.Module, nn.Module, Tensor | None]] = field(default_factory=list)
    """Calls that were done by then: by whom, of which module, and the answer if it is a tensor."""
    multiplications: float = 0.0
    """The multiplications for each sample, in linear layers and convolutions."""
    received: Tensor | None = None
    """What the first of the modules was given."""

    @property
    def worthwhile(self) -> bool:
        """Whether enough was computed before for what would be kept."""
        return self.received is not None and self.multiplications >= WORTH * self.received[:1].numel()


def moving(part: nn.Module) -> bool:
    """Whether a batch norm uses the statistics of the batch. Without running ones, it does so even in evaluation."""
    return isinstance(part, BATCH_NORMS) and (part.training or part.running_mean is None)


class _Found(Exception):
    """The forward pass has come to one of the modules."""


def trace(network: nn.Module, wanted: Sequence[nn.Module], inputs: Tensor) -> Trace | None:
    """The calls before the first of the wanted modules is called; None if none is."""
    found, stack = Trace(), list[nn.Module]()
    handles = []

    def enter(part: nn.Module, arguments: tuple[object, ...]) -> None:
        stack.append(part)
        if part in wanted:
            found.path = stack[:0:-1]
            found.received = arguments[0] if arguments and isinstance(arguments[0], Tensor) else None
            raise _Found

    def leave(part: nn.Module, _: object, answer: object) -> None:
        stack.pop()
        if stack:
            found.before.append((stack[-1], part, answer if isinstance(answer, Tensor) else None))
        weight = None if isinstance(part, nn.Embedding) else part._parameters.get("weight")
        if isinstance(answer, Tensor) and weight is not None and weight.dim() > 1:
            found.multiplications += weight[0].numel() * answer.numel() / len(inputs)

    for part in network.modules():
        handles += [part.register_forward_pre_hook(enter), part.register_forward_hook(leave)]
    try:
        network(inputs)
    except _Found:
        return found
    finally:
        for handle in handles:
            handle.remove()
    return None


def resumptions(
    network: nn.Module, trained: Sequence[nn.Module], inputs: Tensor
) -> Iterator[tuple[Resumed, nn.Module, list[nn.Module]]]:
    """Ways to begin at or around the first trained module: the network, where it begins, and the modules before.

    The shortest is first; none of them has been tried.
    """
    both = trace(network, trained, inputs)
    if both is None or not both.worthwhile or any(moving(part) for _, part, _ in both.before):
        return
    one = trace(network, trained, inputs[1:])
    if one is None or len(both.before) != len(one.before):
        return
    given = _shape(inputs, inputs[1:])
    for at, start in enumerate(both.path):
        callers = {network, *both.path[at + 1 :]}
        calls = [
            (part, answer, other)
            for (caller, part, answer), (_, again, other) in zip(both.before, one.before, strict=True)
            if caller in callers and part is again
        ]
        skipped = {part: shape for part, answer, other in calls if (shape := _shape(answer, other))}
        if given and len(skipped) == len(calls) > 0 and not skipped.keys() & callers:
            before = [each for part in skipped for each in part.modules()]
            yield Resumed(network, start, skipped, given), start, before


def _shape(answer: Tensor | None, other: Tensor | None) -> Shape | None:
    """The shape, from the outputs for two samples and for one."""
    if answer is None or other is None or answer.dtype != other.dtype or answer.dim() != other.dim():
        return None
    if answer.shape == other.shape:
        return Shape(tuple(answer.shape), False, answer.dtype)
    if answer.dim() and (len(answer), len(other)) == (2, 1) and answer.shape[1:] == other.shape[1:]:
        return Shape(tuple(answer.shape[1:]), True, answer.dtype)
    return None


@contextmanager
def _answering(part: Any, shape: Shape, samples: int) -> Iterator[None]:
    """A module that is asked without values answers without values."""
    usual = part.forward

    def forward(*arguments: Any, **named: Any) -> Any:
        blank = any(isinstance(each, Tensor) and each.is_meta for each in (*arguments, *named.values()))
        return shape.blank(samples) if blank else usual(*arguments, **named)

    part.forward = forward
    try:
        yield
    finally:
        del part.forward


@contextmanager
def _receiving(start: nn.Module, features: Tensor) -> Iterator[None]:
    """The module's first argument, which has no values, is replaced."""

    def replace(_: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        blank = arguments and isinstance(arguments[0], Tensor) and arguments[0].is_meta
        return (features, *arguments[1:]) if blank else arguments

    handle = start.register_forward_pre_hook(replace)
    try:
        yield
    finally:
        handle.remove()
