"""The convolutional networks of FedBABU, with any number of blocks."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

CHANNELS = 64


class ConvBlock(nn.Module):
    """A 3 x 3 convolution, batch norm, ReLU, and half the height and width."""

    def __init__(self, inputs: int, running_statistics: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, CHANNELS, kernel_size=3, padding=1)
        self.norm = nn.BatchNorm2d(CHANNELS, track_running_stats=running_statistics)

    def forward(self, inputs: Tensor) -> Tensor:
        # The same as pooling what ReLU leaves, for a quarter of the work.
        return F.relu(F.max_pool2d(self.norm(self.conv(inputs)), 2))


class ConvNet(nn.Module):
    """Blocks of 64 channels and a linear layer on the flattened features."""

    groups: ClassVar = {"head": "fc", "input": "block1"}

    def __init__(self, count: int, shape: tuple[int, ...], classes: int, running_statistics: bool) -> None:
        super().__init__()
        names = tuple(f"block{number}" for number in range(1, count + 1))
        for name, inputs in zip(names, (shape[0], *[CHANNELS] * (count - 1)), strict=True):
            self.add_module(name, ConvBlock(inputs, running_statistics))
        height, width = (side // 2**count for side in shape[1:])
        self.fc = nn.Linear(CHANNELS * height * width, classes)
        self.blocks = (*names, "fc")

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = inputs
        for name in self.blocks[:-1]:
            hidden = self.get_submodule(name)(hidden)
        answer: Tensor = self.fc(torch.flatten(hidden, 1))
        return answer
