"""How does a newcomer get a model? It trains the personal part on its few samples, with all else frozen."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import torch
from torch import Tensor

from ..core.algorithm import Algorithm, begin
from ..core.objectives import Measures, Problem
from ..core.optimizers import SGD, Optimizer
from ..core.phases import Phase, Stage
from ..core.samples import Samples
from ..core.selectors import HEAD, NETWORK, Selector
from ..core.signatures import Length, Positive, check_fields
from ..core.views import PLAIN
from ..errors import PartitaError, unknown
from ..randomness import seeded
from ..tensors import Tensors, only
from .analyses.guard import shares_everything
from .guard import PERSONAL_WEIGHTS, choose, mixture
from .population import ClientModels, Population

Start = Literal["initial", "mean", "nearest"]
"""What the personal part starts from: the initial one, the mean of other clients', or the best of theirs."""
ENOUGH = 5
"""With fewer validation samples, a client takes what most others chose, not the choice of its own loss."""


@dataclass(frozen=True)
class Onboarding:
    """How a new client is trained."""

    start: Start = "mean"
    epochs: Length = 20
    optimizer: Optimizer = field(default_factory=lambda: SGD(0.05))
    donors: Positive = 20
    """The largest number of other clients' personal parts to consider; of more, a fixed sample."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.start not in get_args(Start):
            raise PartitaError(unknown("start", self.start, get_args(Start)))


@dataclass(frozen=True, eq=False)
class Donors:
    """Other clients' personal parts, as they are used."""

    part: Selector
    found: Sequence[Tensors]


def personal_part(population: Population) -> Selector:
    """The part of the network that a new client trains.

    It is what the method keeps personal; where clients have whole networks of their own, everything; and where the
    method shares everything, the head.
    """
    algorithm = population.algorithm
    if algorithm.personal is not None:
        return algorithm.personal
    return HEAD if algorithm.view is PLAIN and shares_everything(population) else NETWORK


def donors_of(population: Population, onboarding: Onboarding) -> Donors:
    """What is needed of other clients to begin with; nothing where a client begins with the initial weights."""
    part = personal_part(population)
    if onboarding.start == "initial":
        return Donors(part, ())
    return Donors(part, [_personal(models, part) for models in population.models(onboarding.donors)])


def onboard(models: ClientModels, donors: Donors, onboarding: Onboarding) -> Tensors:
    """The tensors that a new client answers with: its network's, or the method's where it predicts by itself."""
    starts = _starts(donors, onboarding.start)
    tensors = [_begun(models, start) for start in starts]
    if len(tensors) > 1:
        losses = [_loss(models, each) for each in tensors]
        tensors = [tensors[losses.index(min(losses))]]
    return _trained(models, tensors[0], donors.part, onboarding)


def trained_alone(models: ClientModels, onboarding: Onboarding) -> Tensors:
    """The weights of a network that the client trains by itself, from the initial ones, for as many epochs."""
    phase = Phase(NETWORK, onboarding.optimizer, epochs=onboarding.epochs)
    with torch.enable_grad():
        [found] = models.run_phase(phase, [replace(models.client, purpose="onboard")], [models.client.task.weights])
    return found


def answers(models: ClientModels, tensors: Tensors, inputs: Tensor) -> Tensor:
    """The outputs of a model that `onboard` made."""
    client, algorithm = models.client, models.algorithm
    client.task.evaluate_()
    with torch.no_grad(), seeded(client.moment.seed, "evaluation", client.moment.round, client.id):
        if algorithm.predict:
            return algorithm.predict(tensors, inputs, client)
        return client.task.outputs(tensors, inputs)


def sums(models: ClientModels, samples: Samples, answer: Callable[[Tensor], Tensor]) -> Measures:
    """Sums over samples of what some model answers."""
    total: Measures = {}
    for at in range(0, len(samples), models.batch):
        part = samples.take(slice(at, at + models.batch))
        for name, value in models.client.task.measure(answer(part.inputs), part.targets).items():
            total[name] = total.get(name, 0) + value
    return total


def guarded_weight(
    models: ClientModels,
    own: Callable[[Tensor], Tensor],
    common: Callable[[Tensor], Tensor],
    kind: Problem,
    usual: float,
) -> float:
    """The weight of the new client's personal model beside the global one; `usual` is what most others chose."""
    validation = models.client.validation
    if len(validation) < ENOUGH:
        return usual

    def loss(weight: float) -> float:
        return sums(models, validation, lambda inputs: mixture(own(inputs), common(inputs), weight, kind))["loss"]

    losses = [loss(weight) for weight in PERSONAL_WEIGHTS]
    [place] = choose([losses], [len(validation)], prior=0.0)
    return PERSONAL_WEIGHTS[place]


def usual_weight(chosen: Sequence[float]) -> float:
    """The weight that most clients chose, of equally many the largest; without any, that of the personal model."""
    return max(sorted(set(chosen), reverse=True), key=list(chosen).count) if chosen else 1.0


def _personal(models: ClientModels, part: Selector) -> Tensors:
    algorithm, network = models.algorithm, models.client.task.network
    tensors = models.used if algorithm.predict else models.weights(models.used)
    return only(tensors, part(network, frozenset(network.names)))


def _starts(donors: Donors, start: Start) -> Sequence[Tensors]:
    if not donors.found:
        return [{}]
    if start == "nearest":
        return donors.found
    shapes = {name: tensor.shape for name, tensor in donors.found[0].items()}
    alike = [each for each in donors.found if {name: tensor.shape for name, tensor in each.items()} == shapes]
    return [{name: _mean([each[name] for each in alike]) for name in shapes}]


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    first = tensors[0]
    if not first.is_floating_point():
        return first
    return torch.stack([tensor.double() for tensor in tensors]).mean(0).to(first.dtype)


def _begun(models: ClientModels, personal: Tensors) -> Tensors:
    algorithm, task = models.algorithm, models.client.task
    # A head of another size, where clients number their own classes, is of no use.
    fitting = {name: tensor for name, tensor in personal.items() if tensor.shape == task.weights[name].shape}
    if algorithm.predict:
        return begin(algorithm, replace(models.client, own=models.client.own | fitting))
    weights = models.weights(models.before)
    return {name: fitting.get(name, weights[name]) for name in task.weights}


def _loss(models: ClientModels, tensors: Tensors) -> float:
    return sums(models, models.client.held_out, lambda inputs: answers(models, tensors, inputs)).get("loss", 0.0)


def _trained(models: ClientModels, tensors: Tensors, part: Selector, onboarding: Onboarding) -> Tensors:
    """Norm layers that are not trained keep their statistics: they belong to the frozen part."""
    task = copy.copy(models.client.task)
    task.frozen_norm = "eval"
    client = replace(models.client, task=task, purpose="onboard")
    own = Phase(part, onboarding.optimizer, epochs=onboarding.epochs)
    stages = _own_stages(models.algorithm, own) if models.algorithm.predict else (own,)
    with torch.enable_grad():
        for stage in stages:
            if isinstance(stage, Phase):
                [tensors] = models.run_phase(stage, [client], [tensors])
            else:
                tensors = stage(tensors, client)
    return tensors


def _own_stages(algorithm: Algorithm, phase: Phase) -> Sequence[Stage]:
    """The method's own training, of which the phases train nothing but the personal part."""
    return tuple(
        replace(phase, objective=stage.objective, view=stage.view) if isinstance(stage, Phase) else stage
        for stage in algorithm.phases
    )
