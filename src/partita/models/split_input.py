"""An input in two parts: what all have in common, and what stays with the client."""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..core.signatures import Positive, Width, checked
from ..errors import PartitaError


class SplitInput(nn.Module):
    """The first `public` features go through a shared branch, the others through a personal one; then joined."""

    groups: ClassVar = {
        "head": "fc",
        "input": "personal_branch",
        "personal_branch": "personal_branch",
        "shared_branch": "shared_branch",
        "upper": "upper",
    }
    blocks = ("personal_branch", "shared_branch", "upper", "fc")

    def __init__(
        self, public: int, personal_branch: nn.Module, shared_branch: nn.Module, upper: nn.Module, fc: nn.Module
    ) -> None:
        super().__init__()
        self.public = public
        self.personal_branch = personal_branch
        self.shared_branch = shared_branch
        self.upper = upper
        self.fc = fc

    def forward(self, inputs: Tensor) -> Tensor:
        flat = torch.flatten(inputs, 1)
        shared = self.shared_branch(flat[:, : self.public])
        personal = self.personal_branch(flat[:, self.public :])
        answer: Tensor = self.fc(self.upper(torch.cat((shared, personal), 1)))
        return answer


@checked
def split_input(
    *, shape: tuple[int, ...], classes: int, public: Positive | None = None, hidden: Width = 64
) -> nn.Module:
    """An MLP with a shared and a personal input layer: 13,130 parameters for 64 features and 10 classes.

    The first `public` features are for the shared one; by default half of them.
    """
    features = math.prod(shape)
    public = features // 2 if public is None else public
    if not 0 < public < features:
        raise PartitaError(
            f"split_input: public is {public}, but must be from 1 to {features - 1}, since there are {features} "
            "features."
        )

    def layer(inputs: int) -> nn.Module:
        return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU())

    return SplitInput(public, layer(features - public), layer(public), layer(2 * hidden), nn.Linear(hidden, classes))
