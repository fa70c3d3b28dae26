"""A convolutional network over time, for windows of movement sensors."""

from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from ..core.signatures import Dropout, checked


class HarConvNet(nn.Module):
    """Two convolutions over 9 moments, each with ReLU and pooling, and a linear layer on the mean over time, of which
    dropout leaves out a part while training."""

    groups: ClassVar = {"head": "fc", "input": "conv1"}
    blocks = ("conv1", "conv2", "fc")

    def __init__(self, channels: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(channels, 32, kernel_size=9)
        self.conv2 = nn.Conv1d(32, 64, kernel_size=9)
        self.dropout = nn.Dropout(dropout) if dropout else None
        self.fc = nn.Linear(64, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = F.max_pool1d(F.relu(self.conv1(inputs)), 2)
        hidden = F.max_pool1d(F.relu(self.conv2(hidden)), 2)
        pooled = hidden.mean(2)
        answer: Tensor = self.fc(pooled if self.dropout is None else self.dropout(pooled))
        return answer


@checked
def har_convnet(*, shape: tuple[int, ...], classes: int, dropout: Dropout = 0.0) -> nn.Module:
    """Two convolutions over time and one linear layer: 21,036 parameters for 6 channels and 12 activities."""
    return HarConvNet(shape[0], classes, dropout)
