"""Which models do clients have at a moment? They are built from the server's state and each client's own."""

from collections.abc import Callable, Mapping

from ..core.algorithm import enter
from ..evaluation.population import ClientModels, Population
from ..randomness import Moment
from ..tensors import Tensors
from .setup import Setup


def population_at(setup: Setup, moment: Moment, state: Callable[[], Tensors], own: Mapping[int, Tensors]) -> Population:
    """All clients, including newcomers. The server's state is loaded when the first of them is built."""
    algorithm, data, experiment = setup.algorithm, setup.data, setup.experiment

    def build(number: int) -> ClientModels:
        received = setup.download(state(), number, moment)
        client = setup.with_state(number, own.get(number, {}), received, moment)
        return ClientModels(
            algorithm,
            enter(algorithm, client),
            data[number].test.alone(client.task.layout, client.task.device),
            setup.run_phase,
            experiment.evaluation_batch,
            data.label_sets[number] if data.label_sets else None,
        )

    return Population(
        algorithm=algorithm,
        data=data,
        task=setup.tasks[0],
        build=build,
        numbers=range(len(data)),
        evaluation_clients=experiment.evaluation_clients,
    )
