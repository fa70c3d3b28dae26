"""How good is a model on samples? Sums of losses and right answers."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from ..core.algorithm import Algorithm
from ..core.client import Client
from ..core.objectives import Measures, Outcome, outcome_of
from ..core.samples import Samples
from ..engine.kernels import fast_kernels
from ..engine.prefix import Tail, tail_of
from ..errors import DivergedError
from ..tensors import Tensors
from .variants import Variant

MANY = 512
"""Samples from which on a network that is no chain is resumed; with fewer, finding out how takes longer."""


def measure(algorithm: Algorithm, client: Client, tensors: Tensors, samples: Samples, batch: int) -> Measures:
    """Sums over samples. The network and its statistics stay as they are."""
    return _sums(client, samples, batch, partial(_answer, algorithm, client, tensors))


def _answer(algorithm: Algorithm, client: Client, tensors: Tensors, inputs: Tensor) -> Tensor:
    return algorithm.outputs(tensors, inputs, client)


def measure_all(
    algorithm: Algorithm,
    client: Client,
    models: Mapping[Variant, Tensors],
    samples: Samples,
    batch: int,
    outcomes: Mapping[Variant, list[Outcome]] | None = None,
) -> dict[Variant, Measures]:
    """The sums of each model. Layers before the first in which the models differ are computed once for all.

    The outcome of each sample is added, batch by batch, to the lists in `outcomes`, for the models that have one.
    """
    lists = outcomes or {}
    tail = None if algorithm.predict else _tail(algorithm, client, list(models.values()), samples, batch)
    if tail is None:
        return {
            model: _sums(client, samples, batch, partial(_answer, algorithm, client, tensors), lists.get(model))
            for model, tensors in models.items()
        }
    task, part = client.task, tail.module

    def answer(tensors: Tensors, inputs: Tensor) -> Tensor:
        return task.part_outputs(part, algorithm.view.weights(tensors, task.network), inputs)

    return {
        model: _sums(client, tail.samples, batch, partial(answer, own), lists.get(model))
        for model, own in models.items()
    }


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
    owners = {task.network.owners[name] for name in different}
    return tail_of(task.module, owners, samples, batch, resume=len(samples) >= MANY)


def _sums(
    client: Client,
    samples: Samples,
    batch: int,
    answer: Callable[[Tensor], Tensor],
    outcomes: list[Outcome] | None = None,
) -> Measures:
    client.task.evaluate_()
    total: Measures = {}
    with torch.no_grad(), client.seeded("evaluation"), fast_kernels(client.task.module):
        for at in range(0, len(samples), batch):
            part = samples.take(slice(at, at + batch))
            outputs = answer(part.inputs)
            for name, value in client.task.measure(outputs, part.targets).items():
                total[name] = total.get(name, 0) + value
            if outcomes is not None:
                outcomes.append(outcome_of(client.task.measure, outputs, part.targets))
    if not math.isfinite(total.get("loss", 0.0)):
        raise DivergedError(
            f"The loss of {client} on held-out data is {total['loss']} after round {client.moment.round}. "
            "Lower the learning rate, or clip the gradient."
        )
    return total
