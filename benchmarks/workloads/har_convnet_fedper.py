"""FedPer with the network for windows of movement sensors (HAPT)."""

from benchmarks.floor_network import Training
from benchmarks.made_up import images
from benchmarks.papers import measured
from benchmarks.workload import Workload
from partita.algorithms.fedper import fedper
from partita.core.optimizers import SGD
from partita.models.har_convnet import har_convnet


def workload() -> Workload:
    """FedPer, two convolutions over time, 30 clients of 300 windows, batches of 32, evaluated."""
    return measured(
        workload.__doc__,
        fedper(epochs=1, optimizer=SGD(0.05)),
        har_convnet,
        images(clients=30, train=300, test=100, shape=(6, 128), classes=12),
        [Training(0.05)],
        batch=32,
        evaluations=2,
    )


def quick() -> Workload:
    """The same."""
    return workload()
