"""What is a client's model to its users? An ordinary module that knows its inputs, its classes and what it is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ...core.algorithm import Algorithm
from ...core.client import Client
from ...core.objectives import PAD, SPECIAL, Problem
from ...core.task import Task
from ...errors import PartitaError
from ...formatting import amount
from ...randomness import Moment, seeded
from ...tensors import Tensors
from ..guard import mixture
from ..partition import client_without_data
from ..variants import VARIANTS, Variant
from .inputs import Inputs

BATCH = 512
Function = Callable[[Tensors, Tensor], Tensor]
"""Logits, of tensors and prepared inputs."""


@dataclass(frozen=True)
class About:
    """What a model is."""

    client: str | None
    """The name of its client; None for the global model."""
    number: int
    method: str
    variant: Variant
    weight: float | None = None
    """The weight of the personal model that the guard chose; the rest is the global model's. None: no guard."""
    moment: Moment = field(default_factory=Moment)
    """The moment of its last round, for methods that also draw random numbers in use."""
    onboarded: int | None = None
    """The number of samples that a client which came after the run learned from; None for a client of the run."""

    @property
    def guarded(self) -> bool:
        """Whether the guard chose another model than the personal one."""
        return self.weight is not None and self.weight < 1

    def __str__(self) -> str:
        if self.client is None:
            return f"the global model of {self.method}"
        made = (
            VARIANTS[self.variant] if self.onboarded is None else f"onboarded with {amount(self.onboarded, 'sample')}"
        )
        text = f"the model of client {self.client} by {self.method}, {made}"
        if self.weight is None:
            return text
        if not self.guarded:
            return f"{text}; the guard kept it"
        if not self.weight:
            return f"{text}; the guard chose the global model instead"
        return f"{text}; the guard mixes {self.weight:g} of it with {1 - self.weight:g} of the global model"


class Prediction(NamedTuple):
    """Answers: a label for each input, and the probability of each class; for regression numbers, and None."""

    labels: list[str] | list[float]
    probabilities: Tensor | None


@dataclass(frozen=True, eq=False)
class Answering:
    """What a client answers with: the weights of its network, or its tensors if the method predicts by itself."""

    task: Task
    tensors: Tensors
    algorithm: Algorithm | None = None
    """The method, where it predicts by itself."""

    def module(self, number: int, moment: Moment) -> nn.Module:
        if self.algorithm is None:
            return self.task.module_with(self.tensors)
        return MethodNetwork(self.function(number, moment), self.tensors)

    def function(self, number: int, moment: Moment) -> Function:
        """The answers to inputs as a function of tensors and inputs, with a network of its own in evaluation mode."""
        own = self.task.copy()
        own.evaluate_()
        if self.algorithm is None:
            return own.outputs
        return partial(self.algorithm.outputs, client=_without_data(own, number, moment))

    def outputs(self, inputs: Tensor, number: int, moment: Moment) -> Tensor:
        """The same answers from the one network of the task, which holds a client's weights only during a call."""
        self.task.evaluate_()
        with torch.no_grad():
            if self.algorithm is None:
                return self.task.outputs(self.tensors, inputs)
            return self.algorithm.outputs(self.tensors, inputs, _without_data(self.task, number, moment))


class MethodNetwork(nn.Module):
    """A network whose method answers with more than its weights, as FedCP and GPFL do. Its tensors are buffers."""

    def __init__(self, function: Function, tensors: Tensors) -> None:
        super().__init__()
        self._function = function
        # A dot in the name of a buffer is not allowed.
        self._places = {name: name.replace(".", ":") for name in tensors}
        for name, tensor in tensors.items():
            self.register_buffer(self._places[name], tensor.detach().clone())

    def forward(self, inputs: Tensor) -> Tensor:
        tensors = {name: self.get_buffer(place) for name, place in self._places.items()}
        return self._function(tensors, inputs)


class ClientModel(nn.Module):
    """One client's model, in evaluation mode: logits for prepared inputs, `predict` for inputs as the data hold them.

    `about` says what it is: of which client, by which method, which of its variants, and whether the guard chose
    otherwise. `classes` are the names of the outputs. `inputs` is the signature; call it to prepare inputs.
    """

    def __init__(
        self,
        network: nn.Module,
        about: About,
        inputs: Inputs,
        classes: Sequence[str],
        common: nn.Module | None = None,
    ) -> None:
        """`common` is the global network, where the guard mixes it in; where it replaces the personal one, that too."""
        super().__init__()
        self.about, self.inputs, self.classes = about, inputs, tuple(classes)
        mixed = common is not None and about.guarded
        self.network = common if mixed and about.weight == 0 and common is not None else network
        self.common = common if mixed and about.weight else None
        self.eval()

    @property
    def kind(self) -> Problem:
        return self.inputs.kind

    @property
    def guarded(self) -> bool:
        """Whether the guard chose another model than the personal one."""
        return self.about.guarded

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits of prepared inputs; where the guard mixes two models, logarithms of probabilities."""
        answer: Tensor = self.network(inputs)
        if self.common is None or self.about.weight is None:
            return answer
        return mixture(answer, self.common(inputs), self.about.weight, self.kind)

    def outputs(self, inputs: Tensor, batch: int = BATCH) -> Tensor:
        """The logits of prepared inputs, in batches, without a gradient.

        A method that draws random numbers also in use draws the same ones every time.
        """
        moment = self.about.moment
        parts = []
        with torch.no_grad(), seeded(moment.seed, "evaluation", moment.round, self.about.number):
            for at in range(0, len(inputs), batch):
                try:
                    parts.append(self(inputs[at : at + batch]))
                except IndexError as problem:
                    raise PartitaError(f"The network refuses an index: {problem}.") from problem
        return torch.cat(parts) if parts else self(self.inputs.example(1))[:0].detach()

    def predict(self, given: Any, batch: int = BATCH) -> Prediction:
        """Labels and probabilities for inputs as the data hold them: bytes, numbers or texts.

        >>> from partita import digits, fedper, mlp, simulate
        >>> model = simulate(fedper(), mlp, digits(), rounds=1).model(0)
        >>> labels, probabilities = model.predict(torch.zeros(2, 64))
        >>> len(labels), probabilities.shape
        (2, torch.Size([2, 10]))
        """
        inputs = self.inputs(given)
        return self.answers(inputs, self.outputs(inputs, batch))

    def answers(self, inputs: Tensor, outputs: Tensor) -> Prediction:
        """What logits of prepared inputs mean."""
        return prediction(inputs, outputs, self.classes, self.kind)


def prediction(inputs: Tensor, outputs: Tensor, classes: Sequence[str], kind: Problem) -> Prediction:
    """What logits of prepared inputs mean. Where the next word is predicted, that after the last word given."""
    if kind == "regression":
        return Prediction(outputs.reshape(len(outputs), -1).squeeze(-1).tolist(), None)
    if kind == "next_word":
        last = (inputs != PAD).sum(1).clamp(min=1) - 1
        outputs = outputs[torch.arange(len(outputs)), last]
    probabilities = outputs.softmax(-1)
    return Prediction([classes[at] for at in probabilities.argmax(-1).tolist()], probabilities)


def class_names(names: Sequence[str], count: int, labels: Tensor | None, inputs: Inputs) -> Sequence[str]:
    """The name of each output: of a class, of a word, or its number; none for regression."""
    if inputs.kind == "next_word" and inputs.words is not None:
        return [*("<pad>", "<unknown>", "<begin>", "<end>")[:SPECIAL], *inputs.words.vocabulary]
    if inputs.kind == "regression":
        return ()
    known = list(names) or [str(number) for number in range(count)]
    return known if labels is None else [known[label] for label in labels.tolist()]


def _without_data(task: Task, number: int, moment: Moment) -> Client:
    return replace(client_without_data(task), id=number, moment=moment)
