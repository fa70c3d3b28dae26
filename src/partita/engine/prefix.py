"""Which part of a network answers the same all through a phase? What is before the layers that are trained."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..core.network import BATCH_NORMS
from ..core.samples import READY, Samples

Remember = Callable[[Sequence[nn.Module], Callable[[], Tensor]], Tensor]
"""What some layers make of samples: by computing it, or as it was computed before."""


class _Reached(Exception):
    """The tail was reached; what would come after is not wanted."""


@dataclass(frozen=True)
class Tail:
    """The last part of a network, and what it receives for each sample."""

    module: nn.Module
    samples: Samples


def tail_of(
    network: nn.Module,
    trained: Iterable[nn.Module],
    samples: Samples,
    batch: int = 512,
    remember: Remember | None = None,
) -> Tail | None:
    """The part that holds all trained modules, with its inputs computed once; None where that would not be exact.

    It is exact if the part receives one tensor and its answer is the network's, and if what comes before is without
    chance, without statistics that move, and treats every sample alone.
    """
    part = _common(network, list(trained))
    if part is None or not samples.fixed or len(samples) < 2:
        return None
    inside = set(part.modules())
    before = [layer for layer in network.modules() if layer not in inside]
    # Without running statistics, those of the batch are used even in evaluation.
    if any(isinstance(each, BATCH_NORMS) and (each.training or each.running_mean is None) for each in before):
        return None
    few = samples.take(slice(0, 2)).inputs
    with torch.no_grad(), torch.random.fork_rng(devices=[]), restored(network):
        if not _ends(network, part, few):
            return None
        chance = torch.default_generator.get_state()
        versions = [(id(buffer), buffer._version) for buffer in network.buffers()]
        both, first = (_received(network, part, inputs) for inputs in (few, few[:1]))
        if (
            not torch.equal(chance, torch.default_generator.get_state())
            or versions != [(id(buffer), buffer._version) for buffer in network.buffers()]
            or len(both) != 2
            or _looks_ahead(network, part, few)
            or both.numel() * len(samples) > 2 * READY
            or not torch.allclose(both[:1], first, rtol=1e-4, atol=1e-5)
        ):
            return None

        def compute() -> Tensor:
            parts = (samples.take(slice(at, at + batch)).inputs for at in range(0, len(samples), batch))
            return torch.cat([_received(network, part, inputs) for inputs in parts])

        features = remember(before, compute) if remember else compute()
    if len(features) != len(samples) or not torch.allclose(features[:2], both, rtol=1e-4, atol=1e-5):
        return None
    return Tail(part, Samples(features, samples.targets))


def _common(network: nn.Module, trained: list[nn.Module]) -> nn.Module | None:
    """The smallest part that holds all of them, if that is not the whole network."""
    holding = [part for part in network.modules() if set(trained) <= set(part.modules())]
    return holding[-1] if trained and holding[-1] is not network else None


def _ends(network: nn.Module, part: nn.Module, inputs: Tensor) -> bool:
    """Whether the part is used once, on one tensor, and its answer is the network's."""
    calls: list[tuple[tuple[object, ...], dict[str, object], object, int]] = []

    def note(_: nn.Module, arguments: tuple[object, ...], named: dict[str, object], output: object) -> None:
        calls.append((arguments, named, output, output._version if isinstance(output, Tensor) else 0))

    handle = part.register_forward_hook(note, with_kwargs=True)
    try:
        answer = network(inputs)
    finally:
        handle.remove()
    if len(calls) != 1:
        return False
    arguments, named, output, version = calls[0]
    # An answer that was changed in place is no longer the part's.
    single = len(arguments) == 1 and not named and isinstance(arguments[0], Tensor)
    return single and output is answer and isinstance(answer, Tensor) and answer._version == version


def _looks_ahead(network: nn.Module, part: nn.Module, inputs: Tensor) -> bool:
    """Whether what the part receives depends on weights of the part itself, as where they are tied."""
    weights = [(weight, weight.requires_grad) for weight in network.parameters()]
    own = set(part.parameters())
    try:
        for weight, _ in weights:
            weight.requires_grad_(weight in own)
        with torch.enable_grad():
            return _received(network, part, inputs).requires_grad
    finally:
        for weight, before in weights:
            weight.requires_grad_(before)


@contextmanager
def restored(network: nn.Module) -> Iterator[None]:
    """Trying a network out may move its statistics; they are put back."""
    before = [
        (part, name, buffer, buffer.clone())
        for part in network.modules()
        for name, buffer in part.named_buffers(recurse=False)
    ]
    try:
        yield
    finally:
        for part, name, buffer, values in before:
            buffer.copy_(values)
            part._buffers[name] = buffer


def _received(network: nn.Module, part: nn.Module, inputs: Tensor) -> Tensor:
    """What the part receives; the network is left there."""
    with _stopping(part) as seen:
        try:
            network(inputs)
        except _Reached:
            return seen[0]
    raise AssertionError("the part was used a moment ago")


@contextmanager
def _stopping(part: nn.Module) -> Iterator[list[Tensor]]:
    seen: list[Tensor] = []

    def stop(_: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        seen.append(arguments[0])
        raise _Reached

    handle = part.register_forward_pre_hook(stop)
    try:
        yield seen
    finally:
        handle.remove()
