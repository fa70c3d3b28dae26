"""A multilayer perceptron."""

import math
from collections import OrderedDict
from typing import Annotated

from torch import nn

from ..core.signatures import Width, between, checked


@checked
def mlp(
    *, shape: tuple[int, ...], classes: int, hidden: Width = 64, layers: Annotated[int, between(1, 1000)] = 2
) -> nn.Module:
    """Linear layers with ReLU between them: 4,810 parameters for 64 features and 10 classes."""
    parts: OrderedDict[str, nn.Module] = OrderedDict(flatten=nn.Flatten())
    width = math.prod(shape)
    for number in range(1, layers):
        parts[f"layer{number}"] = nn.Linear(width, hidden)
        parts[f"relu{number}"] = nn.ReLU()
        width = hidden
    parts["head"] = nn.Linear(width, classes)
    return nn.Sequential(parts)
