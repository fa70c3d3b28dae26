"""ResNet-34."""

from torch import nn

from ._resnet import Norm, Stem, basic_resnet


def resnet34(*, shape: tuple[int, ...], classes: int, stem: Stem = "cifar", norm: Norm = "batch") -> nn.Module:
    """ResNet-34 with a stem for small images: 21,282,122 parameters for 3 channels and 10 classes."""
    return basic_resnet((3, 4, 6, 3), shape, classes, stem=stem, norm=norm)
