"""FedPer with CNN4 on CIFAR-10: the workload of most published comparisons."""

from functools import partial

from ..algorithms.fedper import fedper
from ..batching import Batching
from ..data.cifar10 import cifar10
from ..federation import federate
from ..models.cnn4 import cnn4
from ..optimizers import SGD
from ..randomness import seeded
from ..splits.dirichlet import dirichlet
from .crew import crew_seconds
from .floor_cnn4 import prepare
from .workload import Goal, Measured, Workload, round_seconds

BATCH, RATE = 10, 0.005
EVALUATIONS = 2
"""A client of FedPer has three models after a round: trained, averaged, and that of a client without a state. The last
two have the same body."""


def workload() -> Workload:
    """FedPer, CNN4, CIFAR-10 by Dirichlet(0.1) among 20 clients, batches of 10, one epoch, all evaluated each round."""
    data = federate(cifar10(), dirichlet(clients=20, alpha=0.1), validation=0.0)
    with seeded(0, "weights"):
        weights = {
            name: tensor.detach() for name, tensor in cnn4(shape=data.shape, classes=data.classes).named_parameters()
        }
    algorithm = fedper(epochs=1, optimizer=SGD(RATE))

    def partita() -> Measured:
        return Measured(round_seconds(algorithm, cnn4, data, batching=Batching(BATCH)))

    def floor(evaluations: int) -> Measured:
        return Measured(
            crew_seconds(prepare(data, weights, batch=BATCH, rate=RATE, evaluations=evaluations), data.sizes)
        )

    return Workload(
        about=workload.__doc__ or "",
        contenders={
            "partita": partita,
            "floor": partial(floor, EVALUATIONS),
            "floor, one model evaluated": partial(floor, 1),
        },
        goals=[
            Goal("pfllib", "partita", at_least=2.5),
            Goal("partita", "floor", at_most=1.15),
        ],
        peers=["pfllib"],
        division=data,
    )
