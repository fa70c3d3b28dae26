"""Which part of a network gives the same values throughout a phase? The layers before those that are trained."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from ..core.buffers import Snapshot
from ..core.samples import READY, Samples
from .eligibility import plain_modules, state_of
from .resumed import moving, resumptions

Remember = Callable[[Sequence[nn.Module], Callable[[], Tensor]], Tensor]
"""The outputs of some layers for samples, computed now or before."""


class _Reached(Exception):
    """The forward pass has reached the tail, and need not continue."""


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
    resume: bool = True,
) -> Tail | None:
    """The part that holds all trained modules, with its inputs computed once; None where that would not be exact.

    It is exact if the part receives one tensor and its output is the network's, and if the layers before it use no
    random numbers, update no statistics, and treat every sample independently. Where the part is not the end of the
    network, the network is resumed there, if that is wanted.
    """
    owners = list(trained)
    if not owners or type(samples) is not Samples or not samples.fixed or len(samples) < 3:
        return None
    if not plain_modules(network) or any(getattr(each, "max_norm", None) for each in network.modules()):
        return None  # With max_norm, trying the network out would change its weights.
    part, few = _common(network, owners), samples.take(slice(0, 2)).inputs
    kept = partial(_kept, network, samples=samples, few=few, batch=batch)
    with torch.no_grad(), torch.random.fork_rng(devices=[]), restored(network):
        if part is not None and _ends(network, part, few):
            inside = set(part.modules())
            before = [layer for layer in network.modules() if layer not in inside]
            found = kept(part, before, set(part.parameters()), remember=remember)
            return Tail(part, found) if found else None
        if not resume:
            return None
        own = {weight for owner in owners for weight in owner.parameters(recurse=False)}
        for resumed, start, skipped in resumptions(network, owners, few):
            if _continues(network, resumed, start, few):
                found = kept(start, skipped, own)
                return Tail(resumed, found) if found else None
    return None


def _kept(
    network: nn.Module,
    start: nn.Module,
    before: Sequence[nn.Module],
    own: set[nn.Parameter],
    *,
    samples: Samples,
    few: Tensor,
    batch: int,
    remember: Remember | None = None,
) -> Samples | None:
    """What a module receives of all samples, if that depends on nothing but each sample and the layers before."""
    if any(map(moving, before)):
        return None
    chance, state = torch.default_generator.get_state(), state_of(network)
    buffers = [(buffer, buffer._version) for buffer in network.buffers()]
    both, second = (_received(network, start, inputs) for inputs in (few, few[1:]))
    if (
        not torch.equal(chance, torch.default_generator.get_state())
        or (few.device.type != "cpu" and not torch.equal(both, _received(network, start, few)))
        or _changed(network, buffers)
        or state != state_of(network)
        or len(both) != 2
        or _depends_on(network, start, own, few, both)
        or both.numel() * len(samples) > 2 * READY
        # That the first does not depend on others is seen below, where it is computed with them.
        or not _alike(both[1:], second)
    ):
        return None

    def compute() -> Tensor:
        parts = (samples.take(slice(at, at + batch)).inputs for at in range(0, len(samples), batch))
        return torch.cat([_received(network, start, inputs) for inputs in parts])

    features = remember(before, compute) if remember else compute()
    if len(features) != len(samples) or not _alike(features[:2], both):
        return None
    return Samples(features, samples.targets)


def _continues(network: nn.Module, resumed: nn.Module, start: nn.Module, inputs: Tensor) -> bool:
    """Whether the network can begin at a module, and then gives the same answer."""
    chance = torch.default_generator.get_state()
    usual = network(inputs)
    received = _received(network, start, inputs)
    if not isinstance(usual, Tensor) or not isinstance(received, Tensor):
        return False
    torch.default_generator.set_state(chance)
    try:
        answer = resumed(received)
    except Exception:
        # Something after the module needs a value from before it, which torch says in many ways.
        return False
    return isinstance(answer, Tensor) and not answer.is_meta and torch.equal(answer, usual)


def _changed(network: nn.Module, buffers: Sequence[tuple[Tensor, int]]) -> bool:
    """Whether a buffer is no longer the tensor that it was, at the version that it had."""
    now = list(network.buffers())
    return len(now) != len(buffers) or any(
        each is not buffer or each._version != version for each, (buffer, version) in zip(now, buffers, strict=True)
    )


def _alike(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors differ by rounding alone; batches of another size are summed in another order."""
    if one.shape != other.shape or not one.is_floating_point():
        return torch.equal(one, other)
    rounding = torch.finfo(one.dtype).eps ** 0.5 / 4
    return torch.allclose(one, other, rtol=rounding, atol=rounding / 10)


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


def _depends_on(network: nn.Module, part: nn.Module, own: set[nn.Parameter], inputs: Tensor, usual: Tensor) -> bool:
    """Whether the part's inputs depend on weights that may be trained, for instance tied ones, or on autograd."""
    weights = [(weight, weight.requires_grad) for weight in network.parameters()]
    try:
        for weight, _ in weights:
            weight.requires_grad_(weight in own)
        with torch.enable_grad():
            received = _received(network, part, inputs)
        return received.requires_grad or not torch.equal(received, usual)
    finally:
        for weight, before in weights:
            weight.requires_grad_(before)


@contextmanager
def restored(network: nn.Module) -> Iterator[None]:
    """Try the network inside the context; its buffers are restored afterwards."""
    snapshot = Snapshot(network)
    try:
        yield
    finally:
        snapshot.restore_()


def _received(network: nn.Module, part: nn.Module, inputs: Tensor) -> Tensor:
    """What the part receives; the forward pass ends there."""
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
