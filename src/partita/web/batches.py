"""How is a batch of questions answered? One pass through what they share, then each client's own part."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..core.objectives import Problem
from ..evaluation.guard import mixture
from .held import NOTHING, Held, Own, Shared


@dataclass(frozen=True, eq=False)
class Inquiry:
    """Prepared inputs for one client's model."""

    held: Held
    inputs: Tensor


def answers(inquiries: Sequence[Inquiry], shared: Shared, common: Shared | None, kind: Problem) -> list[Tensor]:
    """The logits of each; `common` is the global network, which the guard mixes in for some clients."""
    found: dict[int, Tensor] = {}
    whole = {at: each for at, each in enumerate(inquiries) if each.held.whole is not None}
    own = {at: each for at, each in enumerate(inquiries) if at not in whole and each.held.weight > 0}
    mixed = {at: each for at, each in enumerate(inquiries) if at not in whole and each.held.weight < 1}
    with torch.no_grad():
        for at, each in whole.items():
            if each.held.whole is not None:
                found[at] = each.held.whole.outputs(each.inputs)
        found |= zip(own, _networks([(each.held.own, each.inputs) for each in own.values()], shared), strict=True)
        if mixed and common is not None:
            others = _networks([(NOTHING, each.inputs) for each in mixed.values()], common)
            for (at, each), other in zip(mixed.items(), others, strict=True):
                found[at] = mixture(found[at], other, each.held.weight, kind) if at in own else other
    return [found[at] for at in range(len(inquiries))]


def _networks(asked: Sequence[tuple[Own, Tensor]], shared: Shared) -> list[Tensor]:
    """What own networks answer, each to its inputs."""
    found = {at: shared.outputs(own, inputs) for at, (own, inputs) in enumerate(asked) if own.route == "part"}
    if plain := [at for at, (own, _) in enumerate(asked) if own.route == "shared"]:
        together: Tensor = shared.network(torch.cat([asked[at][1] for at in plain]))
        found |= zip(plain, torch.split(together, [len(asked[at][1]) for at in plain]), strict=True)
    if (headed := [at for at, (own, _) in enumerate(asked) if own.route == "head"]) and shared.separation:
        features = shared.separation.features(torch.cat([asked[at][1] for at in headed]))
        parts = torch.split(features, [len(asked[at][1]) for at in headed])
        heads = [shared.separation.head(asked[at][0].tensors) for at in headed]
        found |= zip(headed, shared.separation.outputs(parts, heads), strict=True)
    return [found[at] for at in range(len(asked))]
