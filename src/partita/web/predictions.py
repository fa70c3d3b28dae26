"""What do logits say? A label and probabilities for each input, as JSON can hold them."""

from typing import Any

from torch import Tensor

from ..core.objectives import Problem
from ..evaluation.prediction.model import prediction
from .catalogue import Answered


def predictions(inputs: Tensor, answered: Answered, kind: Problem, most: int) -> list[dict[str, Any]]:
    """One for each input. Up to `most` labels are given in their order; of more, the likeliest, those first."""
    classes = answered.held.classes
    labels, probabilities = prediction(inputs, answered.outputs, classes, kind)
    if probabilities is None:
        return [{"label": None, "value": _numbers(each), "labels": [], "probabilities": []} for each in labels]
    if len(classes) <= most:
        rows = ((list(classes), row) for row in probabilities.tolist())
    else:
        best = probabilities.topk(most)
        rows = (
            ([classes[at] for at in places], values)
            for places, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        )
    return [
        {"label": label, "value": None, "labels": names, "probabilities": values}
        for label, (names, values) in zip(labels, rows, strict=True)
    ]


def _numbers(value: Any) -> list[float]:
    """One output or several."""
    return list(value) if isinstance(value, list) else [value]
