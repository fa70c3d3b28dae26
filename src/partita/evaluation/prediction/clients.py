"""How does a client of a run become a model? By its tensors after the last round, and by what the guard chose."""

from dataclasses import dataclass

from ...data.federation import Federation
from ...errors import PartitaError
from ..analyses.guard import received_network, shares_everything
from ..population import ClientModels, Population
from ..scores import used_variant
from ..variants import Variant
from .inputs import Inputs
from .model import About, Answering, ClientModel, class_names


@dataclass(frozen=True, eq=False)
class Chosen:
    """What the guard chose for a client: the weight of its personal model, and whose network is the global one."""

    weight: float
    common: ClientModels


def answering(models: ClientModels, variant: Variant | None = None) -> Answering:
    """The weights or tensors with which a client's model answers. A view becomes plain weights of the network."""
    algorithm, task, tensors = models.algorithm, models.client.task, models.of(variant)
    if algorithm.predict:
        return Answering(task, tensors, algorithm)
    weights = models.weights(tensors)
    return Answering(task, {name: weights[name] for name in task.weights})


def common_answering(models: ClientModels) -> Answering:
    """The network that a client received, used as it is."""
    return Answering(models.client.task, received_network(models))


def client_model(
    models: ClientModels, data: Federation, inputs: Inputs, variant: Variant | None = None, chosen: Chosen | None = None
) -> ClientModel:
    """The model of a client, by default the one that the method is meant to be used with."""
    about = about_client(models, data, variant, chosen)
    return assemble(
        answering(models, variant),
        about,
        inputs,
        classes_of(data, about.number, inputs),
        common_answering(chosen.common) if chosen and chosen.weight < 1 else None,
    )


def about_client(
    models: ClientModels, data: Federation, variant: Variant | None = None, chosen: Chosen | None = None
) -> About:
    client = models.client
    return About(
        client=data.name_of(client.id),
        number=client.id,
        method=models.algorithm.label,
        variant=variant or used_variant(models.algorithm),
        weight=chosen.weight if chosen else None,
        moment=client.moment,
    )


def assemble(
    own: Answering, about: About, inputs: Inputs, classes: tuple[str, ...], common: Answering | None = None
) -> ClientModel:
    """A module of its own."""
    network = own.module(about.number, about.moment)
    return ClientModel(
        network, about, inputs, classes, common.module(about.number, about.moment) if common is not None else None
    )


def classes_of(data: Federation, client: int, inputs: Inputs) -> tuple[str, ...]:
    """The names of a client's outputs."""
    labels = data.label_sets[client] if data.label_sets else None
    return tuple(class_names(data.class_names, data.classes, labels, inputs))


def need_global(population: Population) -> None:
    """A global model needs a method that shares the whole network, and one network for all."""
    if not shares_everything(population):
        raise PartitaError(
            f"{population.algorithm.label} shares only a part of its network, so that there is no global model. Take "
            "that of a run of fedavg on the same data, or of a run with baselines."
        )


def global_model(population: Population, inputs: Inputs) -> ClientModel:
    """The network that every client receives."""
    need_global(population)
    first = population[population.numbers[0]]
    data = population.data
    about = About(None, -1, population.algorithm.label, "before_local", moment=first.client.moment)
    return assemble(common_answering(first), about, inputs, classes_of(data, first.client.id, inputs))
