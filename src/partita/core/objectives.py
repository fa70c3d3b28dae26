"""Which loss is trained, and what is measured?"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
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
Outcome = tuple[Tensor, Tensor]
"""For each sample its count, and its correct predictions or, for regression, its loss."""


@dataclass(frozen=True)
class Criterion:
    loss: Loss
    measure: Measure


def classification(outputs: Tensor, targets: Tensor) -> Measures:
    """The count, the correct predictions, and the cross entropy."""
    return {
        "count": len(targets),
        "correct": int((outputs.argmax(1) == targets).sum()),
        "loss": float(F.cross_entropy(outputs, targets, reduction="sum")),
    }


def regression(outputs: Tensor, targets: Tensor) -> Measures:
    """The count, and the squared error."""
    return {"count": len(targets), "loss": float(F.mse_loss(_alike(outputs, targets), targets, reduction="sum"))}


def squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean squared error."""
    return F.mse_loss(_alike(outputs, targets), targets)


def _alike(outputs: Tensor, targets: Tensor) -> Tensor:
    """The outputs in the shape of the targets: a network with one output returns a column."""
    return outputs.squeeze(-1) if outputs.ndim == targets.ndim + 1 and outputs.shape[-1] == 1 else outputs


def next_word(outputs: Tensor, targets: Tensor) -> Measures:
    """The count, the correct predictions and the cross entropy of real words: not padding, unknown, begin or end."""
    words = targets >= SPECIAL
    chosen, wanted = outputs[words], targets[words]
    return {
        "count": len(wanted),
        "correct": int((chosen.argmax(1) == wanted).sum()),
        "loss": float(F.cross_entropy(chosen, wanted, reduction="sum")),
    }


def next_word_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """The mean cross entropy of all words except padding."""
    return F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=PAD)


OBJECTIVES: Mapping[Problem, Criterion] = {
    "classification": Criterion(F.cross_entropy, classification),
    "regression": Criterion(squared_error, regression),
    "next_word": Criterion(next_word_loss, next_word),
}


def outcome_of(measure: Measure, outputs: Tensor, targets: Tensor) -> Outcome:
    """What a measure finds for each sample. One that is not known here is asked sample by sample."""
    if known := _OUTCOMES.get(measure):
        return known(outputs, targets)
    found = [measure(outputs[at : at + 1], targets[at : at + 1]) for at in range(len(targets))]
    counts = [float(each["count"]) for each in found]
    return torch.tensor(counts), torch.tensor([float(each.get("correct", each["loss"])) for each in found])


def _classified(outputs: Tensor, targets: Tensor) -> Outcome:
    return torch.ones(len(targets)), (outputs.argmax(1) == targets).float()


def _squared(outputs: Tensor, targets: Tensor) -> Outcome:
    errors = F.mse_loss(_alike(outputs, targets), targets, reduction="none")
    return torch.ones(len(targets)), errors.reshape(len(targets), -1).sum(1)


def _words(outputs: Tensor, targets: Tensor) -> Outcome:
    words = targets >= SPECIAL
    right = (outputs.argmax(-1) == targets) & words
    return words.sum(1).float(), right.sum(1).float()


_OUTCOMES: Mapping[Measure, Callable[[Tensor, Tensor], Outcome]] = {
    classification: _classified,
    regression: _squared,
    next_word: _words,
}
