"""Which loss is trained, and what is measured?"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor
from torch.nn import functional as F

Problem = Literal["classification", "regression", "next_word"]

PAD, UNKNOWN, BEGIN, END = range(4)
"""Token numbers that are not words: padding, unknown word, begin and end of a text."""
SPECIAL = 4
"""Words are numbered from here."""

Loss = Callable[[Tensor, Tensor], Tensor]
Measures = dict[str, float]
Measure = Callable[[Tensor, Tensor], Measures]
"""Sums over samples: `count`, `loss`, and for classification `correct`."""


@dataclass(frozen=True)
class Criterion:
    loss: Loss
    measure: Measure


def classification(outputs: Tensor, targets: Tensor) -> Measures:
    """How many, how many correct, and the cross entropy."""
    return {
        "count": len(targets),
        "correct": int((outputs.argmax(1) == targets).sum()),
        "loss": float(F.cross_entropy(outputs, targets, reduction="sum")),
    }


def regression(outputs: Tensor, targets: Tensor) -> Measures:
    """How many, and the squared error."""
    return {"count": len(targets), "loss": float(F.mse_loss(_alike(outputs, targets), targets, reduction="sum"))}


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean squared error."""
    return F.mse_loss(_alike(outputs, targets), targets)


def _alike(outputs: Tensor, targets: Tensor) -> Tensor:
    """The outputs in the shape of the targets: a network with one output returns a column."""
    return outputs.squeeze(-1) if outputs.ndim == targets.ndim + 1 and outputs.shape[-1] == 1 else outputs


def next_word(outputs: Tensor, targets: Tensor) -> Measures:
    """Of real words only (not filling, unknown, begin or end): how many, how many right, the cross entropy."""
    words = targets >= SPECIAL
    chosen, wanted = outputs[words], targets[words]
    return {
        "count": len(wanted),
        "correct": int((chosen.argmax(1) == wanted).sum()),
        "loss": float(F.cross_entropy(chosen, wanted, reduction="sum")),
    }


def next_word_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean cross entropy of all words but filling."""
    return F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=PAD)


OBJECTIVES: Mapping[Problem, Criterion] = {
    "classification": Criterion(F.cross_entropy, classification),
    "regression": Criterion(squared_error, regression),
    "next_word": Criterion(next_word_loss, next_word),
}
