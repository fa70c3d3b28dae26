"""How is a batch of questions answered? One pass through what they share, then each client's own part."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.objectives import Problem
from ..evaluation.guard import mixture
from .gathering import apply_heads
from .held import Held, Own, Shared


@dataclass(frozen=True, eq=False)
class Inquiry:
    """Prepared inputs for one client's model."""

    held: Held
    inputs: Tensor


def answers(
    inquiries: Sequence[Inquiry], shared: Shared, common: Shared | None, kind: Problem
) -> list[Tensor]:
    """The logits of each; `common` is the global network, which the guard mixes in for some clients."""
    with torch.no_grad():
        own = _networks([(each.held.own, each.inputs) for each in inquiries], shared)
        mixed = [at for at, each in enumerate(inquiries) if each.held.weight < 1]
        if mixed and common is not None:
            nothing = Own("shared", {})
            others = _networks([(nothing, inquiries[at].inputs) for at in mixed], common)
            for at, other in zip(mixed, others, strict=True):
                own[at] = mixture(own[at], other, inquiries[at].held.weight, kind)
    return own


def _networks(asked: Sequence[tuple[Own, Tensor]], shared: Shared) -> list[Tensor]:
    """Of own networks, each with its inputs."""
    found: dict[int, Tensor] = {}
    by_route: dict[str, list[int]] = {}
    for at, (own, _) in enumerate(asked):
        by_route.setdefault(own.route, []).append(at)
    for at in by_route.get("whole", []):
        own, inputs = asked[at]
        if own.model is not None:
            found[at] = own.model.network(inputs)
    for at in by_route.get("part", []):
        found[at] = shared.outputs(*asked[at])
    if members := by_route.get("shared"):
        together = shared.network(torch.cat([asked[at][1] for at in members]))
        found |= zip(members, together.split([len(asked[at][1]) for at in members]), strict=True)
    if (members := by_route.get("head")) and shared.body:
        features = shared.body.features(torch.cat([asked[at][1] for at in members]))
        parts = features.split([len(asked[at][1]) for at in members])
        heads = [shared.body.head_of(asked[at][0].tensors) for at in members]
        found |= zip(members, apply_heads(parts, heads), strict=True)
    return [found[at] for at in range(len(asked))]
