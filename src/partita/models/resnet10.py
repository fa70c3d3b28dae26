"""ResNet-10."""

from torch import nn

from ._resnet import Norm, Stem, basic_resnet


def resnet10(*, shape: tuple[int, ...], classes: int, stem: Stem = "cifar", norm: Norm = "batch") -> nn.Module:
    """ResNet-10 with a stem for small images: 4,949,412 parameters for 3 channels and 100 classes."""
    return basic_resnet((1, 1, 1, 1), shape, classes, stem=stem, norm=norm)
