"""CNN4, the network of FedALA and FLAYER for images."""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..core.signatures import Width, checked
from ..errors import PartitaError


class CNN4(nn.Module):
    """Two 5 x 5 convolutions, each with ReLU and pooling, and two linear layers."""

    groups: ClassVar = {"head": "fc", "input": "conv1"}
    blocks = ("conv1", "conv2", "fc1", "fc")

    def __init__(self, shape: tuple[int, ...], classes: int, hidden: int) -> None:
        super().__init__()
        if len(shape) != 3 or min(shape[1:]) < 16:
            raise PartitaError(f"cnn4 needs images of at least 16 x 16, channels first; these are of shape {shape}.")
        self.conv1 = nn.Conv2d(shape[0], 32, kernel_size=5)
        self.conv2 = nn.Conv2d(32, 64, kernel_size=5)
        height, width = ((side - 4) // 2 for side in shape[1:])
        self.fc1 = nn.Linear(64 * ((height - 4) // 2) * ((width - 4) // 2), hidden)
        self.fc = nn.Linear(hidden, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        # The same as pooling what ReLU leaves, for a quarter of the work.
        hidden = F.relu(F.max_pool2d(self.conv1(inputs), 2))
        hidden = F.relu(F.max_pool2d(self.conv2(hidden), 2))
        answer: Tensor = self.fc(F.relu(self.fc1(torch.flatten(hidden, 1))))
        return answer


@checked
def cnn4(*, shape: tuple[int, ...] = (3, 32, 32), classes: int = 10, hidden: Width = 512) -> nn.Module:
    """Two convolutions and two linear layers: 878,538 parameters for 32 x 32 x 3 and 10 classes."""
    return CNN4(shape, classes, hidden)
