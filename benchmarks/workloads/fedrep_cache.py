"""What does it bring to compute the features of a frozen body once?"""

from functools import partial

from benchmarks.made_up import images
from benchmarks.workload import Goal, Measured, Workload, measured_round
from partita.algorithms.fedrep import fedrep
from partita.core.algorithm import RunPhase
from partita.core.batching import Batching
from partita.data.federation import Federation, federate
from partita.data.sources.cifar10 import cifar10
from partita.data.splits.dirichlet import dirichlet
from partita.engine.fast import FastEngine
from partita.engine.shortcuts import ALL, Shortcut
from partita.models.cnn4 import cnn4


def workload() -> Workload:
    """FedRep, 10 epochs of the head, one of the body, CNN4 on CIFAR-10, Dirichlet(0.1), 20 clients, all evaluated."""
    return _of(federate(cifar10(), dirichlet(clients=20, alpha=0.1), validation=0.0), workload.__doc__)


def quick() -> Workload:
    """The same with 4 clients of 200 made-up images."""
    return _of(images(clients=4, train=200, test=50, shape=(3, 32, 32), classes=10), quick.__doc__)


def _of(data: Federation, about: str | None) -> Workload:
    def partita(runner: RunPhase | None) -> Measured:
        algorithm = fedrep(head_epochs=10, epochs=1)
        return measured_round(algorithm, cnn4, data, batching=Batching(10), run_phase=runner)

    return Workload(
        about=about or "",
        contenders={
            "partita": partial(partita, None),
            "without cache": partial(partita, FastEngine(ALL - {Shortcut.FEATURES})),
        },
        goals=[Goal("without cache", "partita", at_least=4.0)],
    )
