"""The small convolutional network for EMNIST beside the code of partial personalization."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class EmnistConvNet(nn.Module):
    """Two 5 x 5 convolutions, each with ReLU and pooling, and one linear layer."""

    groups: ClassVar = {"head": "fc", "input": "conv1"}
    blocks = ("conv1", "conv2", "fc")

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(shape[0], 32, kernel_size=5)
        self.conv2 = nn.Conv2d(32, 64, kernel_size=5)
        height, width = (((side - 4) // 2 - 4) // 2 for side in shape[1:])
        self.fc = nn.Linear(64 * height * width, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = F.relu(F.max_pool2d(self.conv1(inputs), 2))
        hidden = F.relu(F.max_pool2d(self.conv2(hidden), 2))
        answer: Tensor = self.fc(torch.flatten(hidden, 1))
        return answer


def emnist_convnet(*, shape: tuple[int, ...], classes: int) -> nn.Module:
    """Two convolutions and one linear layer: 115,646 parameters for 28 x 28 x 1 and 62 classes."""
    return EmnistConvNet(shape, classes)
