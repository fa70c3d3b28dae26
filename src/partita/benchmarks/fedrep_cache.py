"""What does it bring to compute the features of a frozen body once?"""

from functools import partial

from ..algorithm import RunPhase
from ..algorithms.fedrep import fedrep
from ..batching import Batching
from ..data.cifar10 import cifar10
from ..federation import federate
from ..models.cnn4 import cnn4
from ..runners.fast import run_phase
from ..splits.dirichlet import dirichlet
from .workload import Goal, Measured, Workload, round_seconds


def workload() -> Workload:
    """FedRep, 10 epochs of the head, one of the body, CNN4 on CIFAR-10, Dirichlet(0.1), 20 clients, all evaluated."""
    data = federate(cifar10(), dirichlet(clients=20, alpha=0.1), validation=0.0)

    def partita(runner: RunPhase | None) -> Measured:
        algorithm = fedrep(head_epochs=10, epochs=1)
        return Measured(round_seconds(algorithm, cnn4, data, batching=Batching(10), run_phase=runner))

    return Workload(
        about=workload.__doc__ or "",
        contenders={
            "partita": partial(partita, None),
            "without cache": partial(partita, partial(run_phase, cache=False)),
        },
        goals=[Goal("without cache", "partita", at_least=4.0)],
    )
