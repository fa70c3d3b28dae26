"""ResNet-18."""

from torch import nn

from ._resnet import Norm, Stem, basic_resnet


def resnet18(*, shape: tuple[int, ...], classes: int, stem: Stem = "cifar", norm: Norm = "batch") -> nn.Module:
    """ResNet-18 with a stem for small images: 11,173,962 parameters for 3 channels and 10 classes."""
    return basic_resnet((2, 2, 2, 2), shape, classes, stem=stem, norm=norm)
