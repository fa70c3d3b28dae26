"""FedBABU with MobileNet, the network of its tables."""

from functools import partial

from benchmarks.floor_network import Training
from benchmarks.made_up import images
from benchmarks.papers import measured
from benchmarks.workload import Workload
from partita.algorithms.fedbabu import fedbabu
from partita.models.mobilenet import mobilenet


def workload() -> Workload:
    """FedBABU, MobileNet without running statistics, 4 clients of 500 images, batches of 50."""
    return _of(4, workload.__doc__)


def quick() -> Workload:
    """The same with 2 clients."""
    return _of(2, quick.__doc__)


def _of(clients: int, about: str | None) -> Workload:
    return measured(
        about,
        fedbabu(epochs=1),
        partial(mobilenet, running_statistics=False),
        images(clients=clients, train=500, test=100, shape=(3, 32, 32), classes=100),
        [Training(0.1, momentum=0.9, trained=lambda name: not name.startswith("fc."))],
        batch=50,
        evaluations=0,
        peer="fedbabu",
    )
