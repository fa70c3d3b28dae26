"""How is a network of a paper measured? A round of Partita, the floor under it, and the authors' code."""

from collections.abc import Sequence
from copy import deepcopy

from torch import nn

from benchmarks.floor_network import Training, operations, prepare
from benchmarks.processes import in_processes
from benchmarks.workload import Goal, Measured, Workload, measured_round
from partita.core.algorithm import Algorithm
from partita.core.batching import Batching
from partita.data.federation import Federation
from partita.experiment.tasks import Factory, facts_for
from partita.randomness import seeded

MOST = 1.15
"""Times the floor that is allowed."""


def measured(
    about: str | None,
    algorithm: Algorithm,
    network: Factory,
    data: Federation,
    trainings: Sequence[Training],
    *,
    batch: int,
    evaluations: int,
    peer: str | None = None,
    at_least: float = 2.0,
    most: float = MOST,
) -> Workload:
    """All clients take part in a round; `evaluations` models of each are measured after it, unlike in the body."""
    with seeded(0, "weights"):
        model: nn.Module = network(**facts_for(network, data, 0))
    clients = range(len(data))

    def partita() -> Measured:
        return measured_round(
            algorithm, network, data, batching=Batching(batch), evaluated=evaluations > 0, on="processes:2"
        )

    def floor() -> Measured:
        work = prepare(data, model, clients, trainings, batch=batch, evaluations=evaluations)
        return in_processes(work, [data.size(client) for client in clients])

    def counted() -> float:
        # The counts of one client are those of all: they have as many samples.
        one = min(batch, data.size(0))
        inputs, tests = data[0].train.inputs[:one], len(data[0].test)
        trained = operations(deepcopy(model), inputs, trainings, 0) * data.size(0) / one
        return len(data) * (trained + operations(deepcopy(model), inputs, [], evaluations) * tests / one)

    goals = [Goal("partita", "floor", at_most=most)]
    return Workload(
        about=about or "",
        contenders={"partita": partita, "floor": floor},
        goals=[*goals, Goal(peer, "partita", at_least=at_least)] if peer else goals,
        peers=[peer] if peer else [],
        operations=counted,
        division=data,
    )
