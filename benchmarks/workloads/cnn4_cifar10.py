"""FedPer with CNN4 on CIFAR-10: the workload of most published comparisons."""

from functools import partial

from benchmarks.floor_cnn4 import prepare
from benchmarks.made_up import images
from benchmarks.processes import in_processes
from benchmarks.workload import Goal, Measured, Workload, measured_round
from partita.algorithms.fedper import fedper
from partita.core.batching import Batching
from partita.core.optimizers import SGD
from partita.data.federation import Federation, federate
from partita.data.sources.cifar10 import cifar10
from partita.data.splits.dirichlet import dirichlet
from partita.models.cnn4 import cnn4
from partita.randomness import seeded

BATCH, RATE = 10, 0.005
EVALUATIONS = 2
"""A client of FedPer has three models after a round: trained, averaged, and that of a client without a state. The last
two have the same body."""


def workload() -> Workload:
    """FedPer, CNN4, CIFAR-10 by Dirichlet(0.1) among 20 clients, batches of 10, one epoch, all evaluated each round."""
    return _of(federate(cifar10(), dirichlet(clients=20, alpha=0.1), validation=0.0), workload.__doc__)


def quick() -> Workload:
    """The same with 4 clients of 500 made-up images."""
    return _of(images(clients=4, train=500, test=100, shape=(3, 32, 32), classes=10), quick.__doc__)


def _of(data: Federation, about: str | None) -> Workload:
    with seeded(0, "weights"):
        weights = {
            name: tensor.detach() for name, tensor in cnn4(shape=data.shape, classes=data.classes).named_parameters()
        }
    algorithm = fedper(epochs=1, optimizer=SGD(RATE))

    def partita() -> Measured:
        return measured_round(algorithm, cnn4, data, batching=Batching(BATCH))

    def floor(evaluations: int) -> Measured:
        return in_processes(prepare(data, weights, batch=BATCH, rate=RATE, evaluations=evaluations), data.sizes)

    return Workload(
        about=about or "",
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
