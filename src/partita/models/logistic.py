"""Logistic regression: one linear layer."""

import math

from torch import nn


def logistic(*, shape: tuple[int, ...], classes: int) -> nn.Module:
    """One linear layer on the flattened input: 650 parameters for 64 features and 10 classes."""
    module = nn.Sequential()
    module.add_module("flatten", nn.Flatten())
    module.add_module("head", nn.Linear(math.prod(shape), classes))
    return module
