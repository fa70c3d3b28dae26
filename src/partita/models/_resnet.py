"""Residual networks. He et al., 2015, https://arxiv.org/abs/1512.03385"""

from collections.abc import Callable
from functools import partial
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

Stem = Literal["cifar", "imagenet"]
Norm = Literal["batch", "group"]
Layer = Callable[[int], nn.Module]
"""A layer, by its number of channels."""

Block = Callable[[int, int, int], nn.Module]
"""A residual block, by its input channels, its width and its stride."""

WIDTHS = (64, 128, 256, 512)


def groups_of(channels: int) -> int:
    """Groups of a group norm as in partial personalization, 8, 8, 16 and 32, and of 16 channels beyond."""
    return max(8, channels // 16)


def group_norm(channels: int) -> nn.Module:
    return nn.GroupNorm(groups_of(channels), channels)


NORMS: dict[Norm, Layer] = {"batch": nn.BatchNorm2d, "group": group_norm}


def nothing(channels: int) -> nn.Module:
    return nn.Identity()


class Convolution(nn.Conv2d):
    """Without bias, since a norm follows; He's normal initialisation, also when a client draws its own."""

    def __init__(self, inputs: int, outputs: int, size: int, stride: int = 1) -> None:
        super().__init__(inputs, outputs, size, stride, padding=size // 2, bias=False)

    def reset_parameters(self) -> None:
        nn.init.kaiming_normal_(self.weight, mode="fan_out", nonlinearity="relu")


def shortcut(inputs: int, outputs: int, stride: int, norm: Layer) -> nn.Sequential:
    """The identity where a block keeps the shape; else a projection."""
    if stride == 1 and inputs == outputs:
        return nn.Sequential()
    return nn.Sequential(Convolution(inputs, outputs, 1, stride), norm(outputs))


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut; there may be an adapter between each and its norm."""

    def __init__(self, inputs: int, width: int, stride: int, *, norm: Layer, adapter: Layer = nothing) -> None:
        super().__init__()
        self.conv1 = Convolution(inputs, width, 3, stride)
        self.adapter1 = adapter(width)
        self.bn1 = norm(width)
        self.conv2 = Convolution(width, width, 3)
        self.adapter2 = adapter(width)
        self.bn2 = norm(width)
        self.downsample = shortcut(inputs, width, stride, norm)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = F.relu(self.bn1(self.adapter1(self.conv1(inputs))), inplace=True)
        hidden = self.bn2(self.adapter2(self.conv2(hidden)))
        hidden += self.downsample(inputs)
        return F.relu(hidden, inplace=True)


class BottleneckBlock(nn.Module):
    """A 3 x 3 convolution between two of 1 x 1, the second with four times the channels, beside a shortcut."""

    def __init__(self, inputs: int, width: int, stride: int, *, norm: Layer) -> None:
        super().__init__()
        self.conv1 = Convolution(inputs, width, 1)
        self.bn1 = norm(width)
        self.conv2 = Convolution(width, width, 3, stride)
        self.bn2 = norm(width)
        self.conv3 = Convolution(width, 4 * width, 1)
        self.bn3 = norm(4 * width)
        self.downsample = shortcut(inputs, 4 * width, stride, norm)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = F.relu(self.bn1(self.conv1(inputs)), inplace=True)
        hidden = F.relu(self.bn2(self.conv2(hidden)), inplace=True)
        hidden = self.bn3(self.conv3(hidden))
        hidden += self.downsample(inputs)
        return F.relu(hidden, inplace=True)


def stage(block: Block, inputs: int, width: int, outputs: int, count: int, stride: int) -> nn.Sequential:
    """Residual blocks of one width; the first may change the shape."""
    return nn.Sequential(block(inputs, width, stride), *(block(outputs, width, 1) for _ in range(count - 1)))


class ResNet(nn.Module):
    """A stem, four stages of residual blocks, and a linear layer on the mean over places.

    The stem is a 3 x 3 convolution (`cifar`), or one of 7 x 7 with stride 2 and a pooling (`imagenet`).
    """

    def __init__(
        self,
        block: Block,
        counts: tuple[int, int, int, int],
        shape: tuple[int, ...],
        classes: int,
        *,
        stem: Stem,
        norm: Layer,
        expansion: int = 1,
    ) -> None:
        super().__init__()
        small = stem == "cifar"
        first, second, third, fourth = (expansion * width for width in WIDTHS)
        self.conv1 = Convolution(shape[0], WIDTHS[0], 3) if small else Convolution(shape[0], WIDTHS[0], 7, 2)
        self.bn1 = norm(WIDTHS[0])
        self.pool = nn.Identity() if small else nn.MaxPool2d(3, 2, padding=1)
        self.layer1 = stage(block, WIDTHS[0], WIDTHS[0], first, counts[0], 1)
        self.layer2 = stage(block, first, WIDTHS[1], second, counts[1], 2)
        self.layer3 = stage(block, second, WIDTHS[2], third, counts[2], 2)
        self.layer4 = stage(block, third, WIDTHS[3], fourth, counts[3], 2)
        self.fc = nn.Linear(fourth, classes)
        residual = (f"layer{number}.{at}" for number, count in enumerate(counts, 1) for at in range(count))
        self.blocks = (("conv1", "bn1"), *residual, "fc")
        self.groups: dict[str, str | tuple[str, ...]] = {"head": "fc", "input": ("conv1", "bn1")}

    def forward(self, inputs: Tensor) -> Tensor:
        hidden: Tensor = self.pool(F.relu(self.bn1(self.conv1(inputs)), inplace=True))
        hidden = self.layer4(self.layer3(self.layer2(self.layer1(hidden))))
        answer: Tensor = self.fc(hidden.mean((2, 3)))
        return answer


def basic_resnet(
    counts: tuple[int, int, int, int],
    shape: tuple[int, ...],
    classes: int,
    *,
    stem: Stem,
    norm: Norm,
    adapter: Layer = nothing,
) -> ResNet:
    """A network of basic blocks."""
    block = partial(BasicBlock, norm=NORMS[norm], adapter=adapter)
    return ResNet(block, counts, shape, classes, stem=stem, norm=NORMS[norm])
