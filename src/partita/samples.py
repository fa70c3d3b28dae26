"""What does a client learn from? Samples: inputs and targets, the first dimension counts them."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Samples:
    inputs: Tensor
    targets: Tensor

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.targets):
            raise ValueError(f"{len(self.inputs)} inputs, but {len(self.targets)} targets")

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, indices: Tensor | slice) -> "Samples":
        return Samples(self.inputs[indices], self.targets[indices])
