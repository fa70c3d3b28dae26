"""ResNet-18 with group norm, the network of partial personalization for images."""

from torch import nn

from ._adapters import ConvAdapter
from ._resnet import Stem, basic_resnet, groups_of, nothing


def resnet18_gn(
    *,
    shape: tuple[int, ...],
    classes: int,
    stem: Stem = "cifar",
    adapters: bool = False,
    double_skip: bool = False,
) -> nn.Module:
    """ResNet-18 with group norm and, if wanted, adapters: 11,199,486 parameters for 1 channel and 62 classes.

    `double_skip` adds an adapter's input twice, as the authors' code does.
    """

    def adapter(channels: int) -> nn.Module:
        return ConvAdapter(channels, groups=groups_of(channels), double_skip=double_skip)

    counts = (2, 2, 2, 2)
    network = basic_resnet(counts, shape, classes, stem=stem, norm="group", adapter=adapter if adapters else nothing)
    if adapters:
        bare = ("*.adapter1", "*.adapter2")
        # The norms of the shortcuts are shared.
        network.groups |= {"bare_adapter": bare, "adapter": (*bare, "bn1", "*.bn1", "*.bn2")}
    return network
