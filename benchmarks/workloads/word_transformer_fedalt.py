"""FedAlt with the word transformer and adapters, the network of partial personalization for texts."""

from functools import partial

from benchmarks.floor_network import Training
from benchmarks.made_up import texts
from benchmarks.papers import measured
from benchmarks.workload import Workload
from partita.algorithms.fedalt import fedalt
from partita.core.optimizers import SGD
from partita.core.selectors import group
from partita.models.word_transformer import word_transformer

WORDS, LENGTH, CLIP = 10_004, 20, 0.25


def workload() -> Workload:
    """FedAlt, the word transformer with adapters, 4 clients of 128 texts of 20 words, batches of 64, evaluated."""
    return _of(4, workload.__doc__)


def quick() -> Workload:
    """The same with 2 clients."""
    return _of(2, quick.__doc__)


def _of(clients: int, about: str | None) -> Workload:
    return measured(
        about,
        fedalt(personal=group("adapter"), optimizer=SGD(0.1, clip=CLIP)),
        partial(word_transformer, adapters=True, second_adapter="residual_branch"),
        texts(clients=clients, train=128, test=32, length=LENGTH, words=WORDS),
        [
            Training(0.1, trained=personal, clip=CLIP),
            Training(0.1, trained=lambda name: not personal(name), clip=CLIP),
        ],
        batch=64,
        evaluations=3,
        peer="partial_personalization",
    )


def personal(name: str) -> bool:
    return "adapter" in name or "norm" in name
