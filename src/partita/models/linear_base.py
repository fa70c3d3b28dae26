"""A linear base: FedPer's control, which asks whether base layers learn anything."""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..core.signatures import Width, checked


class LinearBase(nn.Module):
    """A linear layer in place of all base layers, and the head, with nothing between them."""

    groups: ClassVar = {"head": "fc", "input": "base"}
    blocks = ("base", "fc")

    def __init__(self, shape: tuple[int, ...], classes: int, features: int) -> None:
        super().__init__()
        self.base = nn.Linear(math.prod(shape), features)
        self.fc = nn.Linear(features, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        answer: Tensor = self.fc(self.base(torch.flatten(inputs, 1)))
        return answer


@checked
def linear_base(*, shape: tuple[int, ...], classes: int, features: Width = 512) -> nn.Module:
    """A linear base with as many features as ResNet-34: 1,578,506 parameters for 32 x 32 x 3 and 10 classes."""
    return LinearBase(shape, classes, features)
