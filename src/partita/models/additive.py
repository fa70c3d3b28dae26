"""A generalized additive model: a shared and a personal network, whose outputs are fused."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..core.signatures import Width, checked
from .mlp import mlp

Kind = Literal["classification", "regression"]


class Mixture(nn.Module):
    """The logarithm of a mixture of two distributions, given by logits, with a learned share of the first."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def reset_parameters(self) -> None:
        """Equal shares."""
        nn.init.zeros_(self.weight)

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return torch.logaddexp(
            F.logsigmoid(self.weight) + F.log_softmax(first, -1),
            F.logsigmoid(-self.weight) + F.log_softmax(second, -1),
        )


class Additive(nn.Module):
    """Two networks of any kind: for regression their sum; for classification the logarithm of a mixture.

    The logarithms of probabilities are their own log-softmax, so that the cross entropy of them is that of the mixture.
    """

    def __init__(self, shared: nn.Module, personal: nn.Module, kind: Kind) -> None:
        super().__init__()
        self.shared = shared
        self.personal = personal
        self.mixture = Mixture() if kind == "classification" else None
        own = ("personal", "mixture") if self.mixture else ("personal",)
        self.groups = {"head": own, "personal": own, "shared": ("shared",)}
        self.blocks = ("shared", own)

    def forward(self, inputs: Tensor) -> Tensor:
        shared: Tensor = self.shared(inputs)
        personal: Tensor = self.personal(inputs)
        if self.mixture is None:
            total = shared + personal
            # One output is a number, as its target is, not a row of one.
            return total.squeeze(1) if total.ndim > 1 else total
        answer: Tensor = self.mixture(shared, personal)
        return answer


@checked
def additive(*, shape: tuple[int, ...], classes: int, hidden: Width = 64, kind: Kind = "classification") -> nn.Module:
    """A shared and a personal MLP, mixed or added: 9,621 parameters for 64 features and 10 classes."""
    return Additive(
        mlp(shape=shape, classes=classes, hidden=hidden), mlp(shape=shape, classes=classes, hidden=hidden), kind
    )
