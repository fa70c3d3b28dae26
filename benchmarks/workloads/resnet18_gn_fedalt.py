"""FedAlt with ResNet-18, group norm and adapters, the network of partial personalization for images."""

from functools import partial

from benchmarks.floor_network import Training
from benchmarks.made_up import images
from benchmarks.papers import measured
from benchmarks.workload import Workload
from partita.algorithms.fedalt import fedalt
from partita.core.optimizers import SGD
from partita.core.selectors import group
from partita.models.resnet18_gn import resnet18_gn


def workload() -> Workload:
    """FedAlt, ResNet-18 with group norm and adapters, 4 clients of 64 writings, batches of 32, evaluated."""
    return _of(4, workload.__doc__)


def quick() -> Workload:
    """The same with 2 clients."""
    return _of(2, quick.__doc__)


def _of(clients: int, about: str | None) -> Workload:
    return measured(
        about,
        fedalt(personal=group("adapter"), optimizer=SGD(0.01)),
        partial(resnet18_gn, adapters=True, double_skip=True),
        images(clients=clients, train=64, test=16, shape=(1, 28, 28), classes=62),
        [Training(0.01, trained=personal), Training(0.01, trained=lambda name: not personal(name))],
        batch=32,
        evaluations=3,
        peer="partial_personalization",
    )


def personal(name: str) -> bool:
    """Adapters and the norms beside them; those of shortcuts are shared."""
    return "adapter" in name or "bn1" in name or "bn2" in name
