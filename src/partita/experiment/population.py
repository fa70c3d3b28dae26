"""Which models do clients have at a moment? They are built from the server's state and each client's own."""

from collections.abc import Callable, Mapping

from ..core.algorithm import enter
from ..core.client import Client
from ..evaluation.population import ClientModels, Population
from ..randomness import Moment
from ..tensors import Tensors
from .setup import Setup


def population_at(setup: Setup, moment: Moment, state: Callable[[], Tensors], own: Mapping[int, Tensors]) -> Population:
    """All clients, including newcomers. The server's state is loaded when the first of them is built."""

    def build(number: int) -> ClientModels:
        received = setup.download(state(), number, moment)
        return models_of(setup, setup.with_state(number, own.get(number, {}), received, moment))

    return Population(
        algorithm=setup.algorithm,
        data=setup.data,
        task=setup.tasks[0],
        build=build,
        numbers=range(len(setup.data)),
        evaluation_clients=setup.experiment.evaluation_clients,
        network=setup.experiment.model,
    )


def models_of(setup: Setup, client: Client) -> ClientModels:
    """The models of a client with its state and its download."""
    data, task = setup.data[client.id], client.task
    return ClientModels(
        setup.algorithm,
        enter(setup.algorithm, client),
        data.test.alone(task.layout, task.device),
        setup.run_phase,
        setup.experiment.evaluation_batch,
        setup.data.label_sets[client.id] if setup.data.label_sets else None,
        data.validation.alone(task.layout, task.device),
    )
