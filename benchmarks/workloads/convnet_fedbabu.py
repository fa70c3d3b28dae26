"""FedBABU with 4convNet on CIFAR-10, as its authors train it."""

from benchmarks.floor_convnet4 import prepare
from benchmarks.processes import seconds_in_processes
from benchmarks.workload import Goal, Measured, Workload, round_seconds
from partita.algorithms.fedbabu import fedbabu
from partita.core.batching import Batching
from partita.data.federation import federate
from partita.data.sources.cifar10 import cifar10
from partita.data.splits.shards import shards
from partita.models.convnet4 import convnet4
from partita.randomness import Moment, seeded
from partita.simulation.samplers import sampler

BATCH, EPOCHS, RATE, MOMENTUM, PARTICIPATION = 50, 10, 0.1, 0.9, 0.1


def workload() -> Workload:
    """FedBABU, 4convNet, CIFAR-10 in 2 shards for each of 100 clients, a tenth trains 10 epochs, batches of 50."""
    data = federate(cifar10(normalization="imagenet"), shards(clients=100, each=2), validation=0.0, crop=4, flip=True)
    chosen = sampler(PARTICIPATION)(len(data), Moment())
    with seeded(0, "weights"):
        model = convnet4(shape=data.shape, classes=data.classes)

    def partita() -> Measured:
        return Measured(
            round_seconds(
                fedbabu(epochs=EPOCHS),
                convnet4,
                data,
                batching=Batching(BATCH),
                participation=PARTICIPATION,
                evaluated=False,
            )
        )

    def floor() -> Measured:
        work = prepare(data, model, chosen, batch=BATCH, epochs=EPOCHS, rate=RATE, momentum=MOMENTUM)
        return Measured(seconds_in_processes(work, [data.size(client) for client in chosen]))

    return Workload(
        about=workload.__doc__ or "",
        contenders={"partita": partita, "floor": floor},
        goals=[Goal("fedbabu", "partita", at_least=1.6), Goal("partita", "floor", at_most=1.15)],
        peers=["fedbabu"],
        division=data,
    )
