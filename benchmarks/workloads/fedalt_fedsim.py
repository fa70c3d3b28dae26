"""FedAlt beside FedSim with as many epochs, where what comes before the adapters is computed once."""

from functools import partial

from benchmarks.made_up import texts
from benchmarks.workload import Goal, Measured, Workload, measured_round
from partita.algorithms.fedalt import fedalt
from partita.algorithms.fedsim import fedsim
from partita.core.algorithm import Algorithm
from partita.core.batching import Batching
from partita.core.optimizers import SGD
from partita.core.selectors import group, where
from partita.models.word_transformer import word_transformer

PERSONAL = group("adapter") & where("layers.3")
EPOCHS, PERSONAL_EPOCHS = 2, 2


def workload() -> Workload:
    """FedAlt with 2 epochs of the last layer's adapters and 2 of all else, and FedSim with 4: 4 clients of 64 texts."""
    data = texts(clients=4, train=64, test=16, length=20, words=10_004)
    network = partial(word_transformer, adapters=True, second_adapter="residual_branch")
    optimizer = SGD(0.1, clip=0.25)
    algorithms: dict[str, Algorithm] = {
        "fedalt": fedalt(personal=PERSONAL, personal_epochs=PERSONAL_EPOCHS, epochs=EPOCHS, optimizer=optimizer),
        "fedsim": fedsim(personal=PERSONAL, epochs=PERSONAL_EPOCHS + EPOCHS, optimizer=optimizer),
    }

    def measure(algorithm: Algorithm) -> Measured:
        return measured_round(algorithm, network, data, batching=Batching(32), on="processes:2")

    return Workload(
        about=workload.__doc__ or "",
        contenders={name: partial(measure, algorithm) for name, algorithm in algorithms.items()},
        goals=[Goal("fedalt", "fedsim", at_most=1.25)],
    )


def quick() -> Workload:
    """The same."""
    return workload()
