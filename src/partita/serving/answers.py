"""How are answers written, and how good are they? As rows of labels and probabilities; as accuracy or RMSE."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import PartitaError, unknown
from ..evaluation.prediction.model import ClientModel, Prediction
from .questions import Questions

MOST_CLASSES = 1000
"""With more classes, as of words, only the answer's own probability is written."""


@dataclass(frozen=True, eq=False)
class Answers:
    """What a model answered."""

    questions: Questions
    prediction: Prediction
    model: ClientModel
    score: float | None
    """Accuracy, or for regression the RMSE; None where the right answers are unknown."""

    @property
    def metric(self) -> str:
        return "RMSE" if self.model.kind == "regression" else "accuracy"

    @property
    def columns(self) -> list[str]:
        if self.prediction.probabilities is None:
            return ["input", "value"]
        return ["input", "label", "probability", *(f"p({name})" for name in self._listed)]

    @property
    def rows(self) -> Iterator[list[Any]]:
        found = self.prediction.probabilities
        for at, (name, label) in enumerate(zip(self.questions.names, self.prediction.labels, strict=True)):
            if found is None:
                yield [name, label]
            else:
                yield [name, label, float(found[at].max()), *(found[at].tolist() if self._listed else ())]

    def as_dict(self) -> dict[str, Any]:
        """What can be written as JSON."""
        return {
            "model": str(self.model.about),
            "client": self.model.about.client,
            "guarded": self.model.guarded,
            "classes": list(self._listed),
            "metric": self.metric,
            "score": self.score,
            "answers": [dict(zip(self.columns[:3], row[:3], strict=False)) | self._all(row) for row in self.rows],
        }

    def _all(self, row: Sequence[Any]) -> dict[str, Any]:
        return {"probabilities": list(row[3:])} if len(row) > 3 else {}

    @property
    def _listed(self) -> Sequence[str]:
        return self.model.classes if len(self.model.classes) <= MOST_CLASSES else ()


def answer(model: ClientModel, questions: Questions, classes: Sequence[str]) -> Answers:
    """Ask a model; `classes` are the names of all classes, by which labels in a file may be numbered."""
    prediction = model.predict(questions.inputs)
    return Answers(questions, prediction, model, _score(model, prediction, questions.answers, classes))


def _score(
    model: ClientModel, prediction: Prediction, answers: Sequence[str] | None, classes: Sequence[str]
) -> float | None:
    if answers is None or model.kind == "next_word":
        return None
    if model.kind == "regression":
        try:
            given, right = ([float(each) for each in values] for values in (prediction.labels, answers))
        except ValueError as problem:
            raise PartitaError(f"A label is not a number: {problem}. This model answers with numbers.") from None
        errors = [(one - other) ** 2 for one, other in zip(given, right, strict=True)]
        return math.sqrt(sum(errors) / len(errors))
    names = [class_of(label, classes) for label in answers]
    return sum(label == name for label, name in zip(prediction.labels, names, strict=True)) / len(names)


def class_of(label: str, classes: Sequence[str]) -> str:
    """The name of a class, given its name or its number.

    Where names are numbers themselves, and not those of their classes, a label is a name and nothing else.
    """
    number = label.removesuffix(".0")
    for name in (label, number):
        if name in classes:
            return name
    clear = all(name == str(at) for at, name in enumerate(classes) if _is_number(name))
    if clear and number.isascii() and number.isdigit() and int(number) < len(classes):
        return classes[int(number)]
    raise PartitaError(unknown("label", label, classes[:50]))


def _is_number(name: str) -> bool:
    try:
        float(name)
    except ValueError:
        return False
    return True
