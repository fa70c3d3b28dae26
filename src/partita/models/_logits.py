"""How does a Hugging Face model take part? As a module that takes token numbers and gives the logits alone."""

from typing import Any

from torch import Tensor, nn

from ..core.objectives import PAD


class Logits(nn.Module):
    """A transformers model (perhaps with PEFT adapters) that returns its logits; padding is masked.

    Parameters that the model freezes (`requires_grad` is false), as PEFT does with all but its adapters, are neither
    trained nor sent.
    """

    def __init__(self, model: Any, *, pad: int = PAD) -> None:
        super().__init__()
        self.model = model
        self.pad = pad

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.model(input_ids=inputs, attention_mask=(inputs != self.pad).long()).logits
        return logits
