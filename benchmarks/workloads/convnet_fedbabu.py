"""FedBABU with 4convNet on CIFAR-10, as its authors train it."""

from benchmarks.floor_convnet4 import prepare
from benchmarks.made_up import images
from benchmarks.processes import in_processes
from benchmarks.workload import Goal, Measured, Workload, measured_round
from partita.algorithms.fedbabu import fedbabu
from partita.core.batching import Batching
from partita.data.federation import Federation, federate
from partita.data.sources.cifar10 import cifar10
from partita.data.splits.shards import shards
from partita.experiment.samplers import sampler
from partita.models.convnet4 import convnet4
from partita.randomness import Moment, seeded

BATCH, EPOCHS, RATE, MOMENTUM, PARTICIPATION = 50, 10, 0.1, 0.9, 0.1


def workload() -> Workload:
    """FedBABU, 4convNet, CIFAR-10 in 2 shards for each of 100 clients, a tenth trains 10 epochs, batches of 50."""
    data = federate(cifar10(normalization="imagenet"), shards(clients=100, each=2), validation=0.0, crop=4, flip=True)
    return _of(data, EPOCHS, PARTICIPATION, workload.__doc__)


def quick() -> Workload:
    """The same with 4 clients of 300 made-up images, who all train 2 epochs."""
    data = images(clients=4, train=300, test=20, shape=(3, 32, 32), classes=10, crop=4, flip=True)
    return _of(data, 2, 1.0, quick.__doc__)


def _of(data: Federation, epochs: int, participation: float, about: str | None) -> Workload:
    chosen = sampler(participation)(len(data), Moment())
    with seeded(0, "weights"):
        model = convnet4(shape=data.shape, classes=data.classes)

    def partita() -> Measured:
        return measured_round(
            fedbabu(epochs=epochs),
            convnet4,
            data,
            batching=Batching(BATCH),
            participation=participation,
            evaluated=False,
        )

    def floor() -> Measured:
        work = prepare(data, model, chosen, batch=BATCH, epochs=epochs, rate=RATE, momentum=MOMENTUM)
        return in_processes(work, [data.size(client) for client in chosen])

    return Workload(
        about=about or "",
        contenders={"partita": partita, "floor": floor},
        goals=[Goal("fedbabu", "partita", at_least=1.6), Goal("partita", "floor", at_most=1.15)],
        peers=["fedbabu"],
        division=data,
    )
