"""What does a Ray cluster of one machine cost beside plain processes?"""

from functools import partial

import numpy as np

from benchmarks.workload import Goal, Measured, Workload, measured_round
from partita.algorithms.fedavg import fedavg
from partita.core.batching import Batching
from partita.core.optimizers import SGD
from partita.data.federation import federate
from partita.data.pool import pool
from partita.data.splits.iid import iid
from partita.experiment.executor import Executor
from partita.experiment.executors.processes import Processes
from partita.experiment.executors.ray import Ray
from partita.models.mlp import mlp

CLIENTS, EACH, BATCH, RATE, EPOCHS = 100, 200, 10, 0.05, 1


def workload() -> Workload:
    """FedAvg, an MLP of 4,810 numbers on 8 x 8 pixels, 100 clients of 200 samples; the last of 6 rounds."""
    draw = np.random.default_rng(0)
    # A few test samples besides, since a division without test data is refused.
    inputs = draw.random((CLIENTS * (EACH + 2), 1, 8, 8), dtype=np.float32)
    made = pool("digits-like", inputs, draw.integers(10, size=len(inputs)), classes=10)
    data = federate(made, iid(clients=CLIENTS, test=2 / (EACH + 2)), validation=0.0)

    def partita(on: Executor, epochs: int) -> Measured:
        return measured_round(
            fedavg(epochs=epochs, optimizer=SGD(RATE)),
            mlp,
            data,
            batching=Batching(BATCH),
            evaluated=False,
            on=on,
            count=6,
        )

    return Workload(
        about=workload.__doc__ or "",
        contenders={
            "ray": partial(partita, Ray(workers=2), EPOCHS),
            "processes": partial(partita, Processes(2), EPOCHS),
            "ray, 20 epochs": partial(partita, Ray(workers=2), 20 * EPOCHS),
            "processes, 20 epochs": partial(partita, Processes(2), 20 * EPOCHS),
        },
        goals=[
            Goal("ray", "processes", at_most=1.1),
            Goal("ray, 20 epochs", "processes, 20 epochs", at_most=1.1),
            Goal("flower", "ray", at_least=1.5),
        ],
        peers=["flower"],
        division=data,
    )
