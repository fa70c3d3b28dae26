"""4convNet, the network of FedBABU for CIFAR."""

from torch import nn

from ._convnet import ConvNet


def convnet4(*, shape: tuple[int, ...], classes: int, running_statistics: bool = False) -> nn.Module:
    """Four convolutions with batch norm: 115,658 parameters for 32 x 32 x 3 and 10 classes."""
    return ConvNet(4, shape, classes, running_statistics)
