"""FedPer with ResNet-18 as PFLlib has it: the stem for large images, on images of 32 x 32."""

from functools import partial

from benchmarks.floor_network import Training
from benchmarks.made_up import images
from benchmarks.papers import measured
from benchmarks.workload import Workload
from partita.algorithms.fedper import fedper
from partita.core.optimizers import SGD
from partita.models.resnet18 import resnet18


def workload() -> Workload:
    """FedPer, ResNet-18 with the stem of ImageNet, 4 clients of 400 images of 100 classes, batches of 10, evaluated."""
    return _of(4, workload.__doc__)


def quick() -> Workload:
    """The same with 2 clients."""
    return _of(2, quick.__doc__)


def _of(clients: int, about: str | None) -> Workload:
    return measured(
        about,
        fedper(epochs=1, optimizer=SGD(0.005)),
        partial(resnet18, stem="imagenet"),
        images(clients=clients, train=400, test=100, shape=(3, 32, 32), classes=100),
        [Training(0.005)],
        batch=10,
        evaluations=2,
        peer="pfllib",
    )
