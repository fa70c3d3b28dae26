"""Are two processes twice as fast as one?"""

from functools import partial

from benchmarks.workload import Goal, Measured, Workload, measured_round
from partita.algorithms.fedper import fedper
from partita.core.batching import Batching
from partita.core.optimizers import SGD
from partita.data.federation import federate
from partita.data.sources.cifar10 import cifar10
from partita.data.splits.dirichlet import dirichlet
from partita.models.cnn4 import cnn4


def workload() -> Workload:
    """The round of cnn4_cifar10 with one worker and with two."""
    data = federate(cifar10(), dirichlet(clients=20, alpha=0.1), validation=0.0)

    def partita(workers: int) -> Measured:
        algorithm = fedper(epochs=1, optimizer=SGD(0.005))
        return measured_round(algorithm, cnn4, data, batching=Batching(10), on=f"processes:{workers}")

    return Workload(
        about=workload.__doc__ or "",
        contenders={"two workers": partial(partita, 2), "one worker": partial(partita, 1)},
        goals=[Goal("one worker", "two workers", at_least=1.85)],
    )
