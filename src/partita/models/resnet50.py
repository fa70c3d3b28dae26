"""ResNet-50."""

from functools import partial

from torch import nn

from ._resnet import NORMS, BottleneckBlock, Norm, ResNet, Stem


def resnet50(*, shape: tuple[int, ...], classes: int, stem: Stem = "cifar", norm: Norm = "batch") -> nn.Module:
    """ResNet-50 with a stem for small images: 23,705,252 parameters for 3 channels and 100 classes."""
    block = partial(BottleneckBlock, norm=NORMS[norm])
    return ResNet(block, (3, 4, 6, 3), shape, classes, stem=stem, norm=NORMS[norm], expansion=4)
