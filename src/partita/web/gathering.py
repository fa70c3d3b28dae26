"""How does each client apply its own head to the features of its inputs? Those that are alike, in one product."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from ..serving.separation import Head


def apply_heads(features: Sequence[Tensor], heads: Sequence[Head]) -> list[Tensor]:
    """The logits of each client: its own head, applied to its own features.

    Clients with as many labels and as many rows are one product of stacked matrices.
    """
    groups: dict[tuple[torch.Size, torch.Size, bool], list[int]] = {}
    for at, (own, (weight, bias)) in enumerate(zip(features, heads, strict=True)):
        groups.setdefault((own.shape, weight.shape, bias is None), []).append(at)
    found: dict[int, Tensor] = {}
    for (shape, _, _), members in groups.items():
        if len(members) == 1:
            [at] = members
            found[at] = F.linear(features[at], *heads[at])
            continue
        rows = torch.stack([features[at].reshape(-1, shape[-1]) for at in members])
        logits = torch.bmm(rows, torch.stack([heads[at][0] for at in members]).mT)
        biases = [bias for at in members if (bias := heads[at][1]) is not None]
        if biases:
            logits += torch.stack(biases)[:, None]
        found |= zip(members, logits.reshape(len(members), *shape[:-1], -1), strict=True)
    return [found[at] for at in range(len(features))]
