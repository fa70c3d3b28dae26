"""MobileNet-v1 for small images. Howard et al., 2017, https://arxiv.org/abs/1704.04861"""

from typing import Annotated, ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from ..core.signatures import between, checked

OUTPUTS = (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)
STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)


class SeparableBlock(nn.Module):
    """A 3 x 3 convolution in each channel and a 1 x 1 convolution across them, each with batch norm and ReLU."""

    def __init__(self, inputs: int, outputs: int, stride: int, running_statistics: bool) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, inputs, 3, stride, padding=1, groups=inputs, bias=False)
        self.bn1 = nn.BatchNorm2d(inputs, track_running_stats=running_statistics)
        self.conv2 = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs, track_running_stats=running_statistics)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = F.relu(self.bn1(self.conv1(inputs)))
        return F.relu(self.bn2(self.conv2(hidden)))


class MobileNet(nn.Module):
    """A stem that keeps the size of the image, 13 separable blocks, and a linear layer on the mean over places."""

    groups: ClassVar = {"head": "fc", "input": ("conv1", "bn1")}
    blocks = (("conv1", "bn1"), *(f"layers.{number}" for number in range(len(OUTPUTS))), "fc")

    def __init__(self, channels: int, classes: int, width: float, running_statistics: bool) -> None:
        super().__init__()
        stem, *outputs = (int(each * width) for each in (32, *OUTPUTS))
        self.conv1 = nn.Conv2d(channels, stem, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(stem, track_running_stats=running_statistics)
        sizes = zip((stem, *outputs[:-1]), outputs, STRIDES, strict=True)
        self.layers = nn.Sequential(*(SeparableBlock(*size, running_statistics) for size in sizes))
        self.fc = nn.Linear(outputs[-1], classes)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden: Tensor = self.layers(F.relu(self.bn1(self.conv1(inputs))))
        answer: Tensor = self.fc(hidden.mean((2, 3)))
        return answer


@checked
def mobilenet(
    *,
    shape: tuple[int, ...],
    classes: int,
    width: Annotated[float, between(1 / 32, 16)] = 1.0,
    running_statistics: bool = True,
) -> nn.Module:
    """MobileNet-v1 for small images: 3,217,226 parameters for 3 channels and 10 classes."""
    return MobileNet(shape[0], classes, width, running_statistics)
