"""Are two processes twice as fast as one?"""

from functools import partial

from ..algorithms.fedper import fedper
from ..batching import Batching
from ..data.cifar10 import cifar10
from ..federation import federate
from ..models.cnn4 import cnn4
from ..optimizers import SGD
from ..splits.dirichlet import dirichlet
from .workload import Goal, Measured, Workload, round_seconds


def workload() -> Workload:
    """The round of cnn4_cifar10 with one worker and with two."""
    data = federate(cifar10(), dirichlet(clients=20, alpha=0.1), validation=0.0)

    def partita(workers: int) -> Measured:
        algorithm = fedper(epochs=1, optimizer=SGD(0.005))
        return Measured(round_seconds(algorithm, cnn4, data, batching=Batching(10), workers=workers))

    return Workload(
        about=workload.__doc__ or "",
        contenders={"two workers": partial(partita, 2), "one worker": partial(partita, 1)},
        goals=[Goal("one worker", "two workers", at_least=1.85)],
    )
