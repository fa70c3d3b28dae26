"""How good is a model? Sums over samples, scores of clients, and summaries over clients."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeVar

import torch
from torch import Tensor

from ..core.algorithm import Algorithm
from ..core.client import Client
from ..core.objectives import Measures
from ..core.samples import Samples
from ..engine.prefix import Tail, tail_of
from ..errors import DivergedError, PartitaError
from ..tensors import Tensors
from .variants import Variant

Item = TypeVar("Item")
HeldOut = Literal["validation", "test"]
"""The roles of samples that are not trained on."""

QUANTILES = (10, 25, 50, 75, 90)
"""Percent of clients."""


@dataclass(frozen=True)
class Record:
    """Sums over the samples of one client and role, for one of its models after a round (counted from 1)."""

    round: int
    client: int
    variant: Variant
    role: HeldOut
    count: int
    correct: int | None
    """None for regression."""
    loss: float

    @property
    def score(self) -> float:
        """The accuracy, or for regression the root of the mean squared error."""
        return math.sqrt(self.loss / self.count) if self.correct is None else self.correct / self.count


@dataclass(frozen=True)
class Summary:
    """Scores of several clients: of all samples together (micro), and the mean and spread over clients (macro, std).

    The score is accuracy, or for regression the root of the mean squared error, of which less is better.
    """

    micro: float
    macro: float
    std: float
    """The population standard deviation over clients: 0 for one client."""
    worst_decile: float
    """The mean of the worst tenth of the clients, rounded down, at least of one."""
    clients: int
    """The number of clients with samples."""
    quantiles: Mapping[int, float]
    """By percent, from small scores to large ones, with linear interpolation."""
    left_out: int = 0
    """The number of clients without samples in this role."""


def measure(algorithm: Algorithm, client: Client, tensors: Tensors, samples: Samples, batch: int) -> Measures:
    """Sums over samples. The network and its statistics stay as they are."""
    return _sums(client, samples, batch, lambda inputs: algorithm.outputs(tensors, inputs, client))


def measure_all(
    algorithm: Algorithm, client: Client, models: Mapping[Variant, Tensors], samples: Samples, batch: int
) -> dict[Variant, Measures]:
    """The sums of each model. Layers before the first in which the models differ are computed once for all."""
    tail = None if algorithm.predict else _tail(algorithm, client, list(models.values()), samples, batch)
    if tail is None:
        return {model: measure(algorithm, client, tensors, samples, batch) for model, tensors in models.items()}
    task, part = client.task, tail.module

    def answer(tensors: Tensors, inputs: Tensor) -> Tensor:
        return task.part_outputs(part, algorithm.view.weights(tensors, task.network), inputs)

    return {model: _sums(client, tail.samples, batch, partial(answer, own)) for model, own in models.items()}


def _tail(algorithm: Algorithm, client: Client, models: Sequence[Tensors], samples: Samples, batch: int) -> Tail | None:
    """The last part of the network, if the models differ in nothing else."""
    task = client.task
    first, *others = (algorithm.view.weights(tensors, task.network) for tensors in models)
    different = {
        name
        for other in others
        for name, tensor in first.items()
        # Most are one and the same: what was received.
        if tensor is not other[name] and not torch.equal(tensor, other[name])
    }
    if not different:
        return None
    task.load_(first)
    task.evaluate_()
    return tail_of(task.module, {task.network.owners[name] for name in different}, samples, batch)


def _sums(client: Client, samples: Samples, batch: int, answer: Callable[[Tensor], Tensor]) -> Measures:
    client.task.evaluate_()
    total: Measures = {}
    with torch.no_grad(), client.seeded("evaluation"):
        for at in range(0, len(samples), batch):
            part = samples.take(slice(at, at + batch))
            for name, value in client.task.measure(answer(part.inputs), part.targets).items():
                total[name] = total.get(name, 0) + value
    if not math.isfinite(total.get("loss", 0.0)):
        raise DivergedError(
            f"The loss of {client} on held-out data is {total['loss']} after round {client.moment.round}. "
            "Lower the learning rate, or clip the gradient."
        )
    return total


def record_of(
    sums: Measures, round: int, client: int, variant: Variant = "before_local", role: HeldOut = "test"
) -> Record:
    """A record of sums; the sums of no samples may be empty."""
    correct = int(sums["correct"]) if "correct" in sums else None
    return Record(round, client, variant, role, int(sums.get("count", 0)), correct, float(sums.get("loss", 0.0)))


def used_variant(algorithm: Algorithm) -> Variant:
    """The variant that a method is meant to be used with."""
    return "after_finetune" if algorithm.finetune else "before_local"


def summarize(records: Iterable[Record], clients: Iterable[int] = ()) -> Summary:
    """Summarize the records of one variant, role and round. Clients without samples are left out and counted."""
    given: Sequence[Record] = list(records)
    chosen = [record for record in given if record.count]
    if not chosen:
        raise PartitaError("There is nothing to summarize: no client has samples in this role.")
    errors = any(record.correct is None for record in chosen)
    each = sorted(record.score for record in chosen)
    mean = sum(each) / len(each)
    worst = tenth(each[::-1] if errors else each)
    together = replace(
        chosen[0],
        count=sum(record.count for record in chosen),
        correct=None if errors else sum(record.correct or 0 for record in chosen),
        loss=sum(record.loss for record in chosen),
    )
    return Summary(
        micro=together.score,
        macro=mean,
        std=(sum((score - mean) ** 2 for score in each) / len(each)) ** 0.5,
        worst_decile=sum(worst) / len(worst),
        clients=len(each),
        quantiles={percent: quantile(each, percent) for percent in QUANTILES},
        left_out=len({*clients, *(record.client for record in given)} - {record.client for record in chosen}),
    )


def tenth(ordered: Sequence[Item]) -> Sequence[Item]:
    """The first tenth of the items, rounded down, at least one."""
    return ordered[: max(len(ordered) // 10, 1)]


def quantile(ordered: Sequence[float], percent: float) -> float:
    """The quantile of sorted numbers, with linear interpolation."""
    place = (len(ordered) - 1) * percent / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])
