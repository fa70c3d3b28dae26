"""Which part of a network answers the same all through a phase? What is before the layers that are trained."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .network import BATCH_NORMS
from .samples import READY, Samples


class _Reached(Exception):
    """The tail was reached; what would come after is not wanted."""


@dataclass(frozen=True)
class Tail:
    """The last part of a network, and what it receives for each sample."""

    module: nn.Module
    samples: Samples


def tail_of(network: nn.Module, trained: Iterable[nn.Module], samples: Samples, batch: int = 512) -> Tail | None:
    """The part that holds all trained modules, with its inputs computed once; None where that would not be exact.

    It is exact if the part receives one tensor and its answer is the network's, and if what comes before is without
    chance, without statistics that move, and treats every sample alone.
    """
    part = _common(network, list(trained))
    if part is None or not samples.fixed or len(samples) < 2:
        return None
    before = set(network.modules()) - set(part.modules())
    if any(isinstance(each, BATCH_NORMS) and each.training for each in before):
        return None
    few = samples.take(slice(0, 2)).inputs
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        if not _ends(network, part, few):
            return None
        chance = torch.default_generator.get_state()
        versions = [buffer._version for buffer in network.buffers()]
        both, first = (_received(network, part, inputs) for inputs in (few, few[:1]))
        if (
            not torch.equal(chance, torch.default_generator.get_state())
            or versions != [buffer._version for buffer in network.buffers()]
            or len(both) != 2
            or both.numel() * len(samples) > 2 * READY
            or not torch.allclose(both[:1], first, rtol=1e-4, atol=1e-5)
        ):
            return None
        parts = [
            _received(network, part, samples.take(slice(at, at + batch)).inputs) for at in range(0, len(samples), batch)
        ]
    return Tail(part, Samples(torch.cat(parts), samples.targets))


def _common(network: nn.Module, trained: list[nn.Module]) -> nn.Module | None:
    """The smallest part that holds all of them, if that is not the whole network."""
    holding = [part for part in network.modules() if set(trained) <= set(part.modules())]
    return holding[-1] if trained and holding[-1] is not network else None


def _ends(network: nn.Module, part: nn.Module, inputs: Tensor) -> bool:
    """Whether the part is used once, on one tensor, and its answer is the network's."""
    calls: list[tuple[tuple[object, ...], object]] = []
    handle = part.register_forward_hook(lambda _, arguments, output: calls.append((arguments, output)))
    try:
        answer = network(inputs)
    finally:
        handle.remove()
    return len(calls) == 1 and len(calls[0][0]) == 1 and isinstance(calls[0][0][0], Tensor) and calls[0][1] is answer


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
