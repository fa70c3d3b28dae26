"""Many clients with little to do: what does a simulator itself cost?"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch.nn import functional as F

from benchmarks.processes import in_processes
from benchmarks.workload import Goal, Measured, Workload, measured_round
from partita.algorithms.fedavg import fedavg
from partita.core.batching import Batching
from partita.core.optimizers import SGD
from partita.data.federation import Federation, federate
from partita.data.pool import pool
from partita.data.splits.iid import iid
from partita.experiment.samplers import sampler
from partita.models.mlp import mlp
from partita.randomness import Moment

CLIENTS, EACH, BATCH, RATE = 1000, 20, 10, 0.05


def workload() -> Workload:
    """FedAvg, an MLP of 4,810 numbers on 8 x 8 pixels, 1,000 clients of 20 samples, 100 per round, one epoch."""
    draw = np.random.default_rng(0)
    # A test sample for each client besides, since a division without test data is refused.
    inputs = draw.random((CLIENTS * (EACH + 1), 1, 8, 8), dtype=np.float32)
    made = pool("digits-like", inputs, draw.integers(10, size=len(inputs)), classes=10)
    data = federate(made, iid(clients=CLIENTS, test=1 / (EACH + 1)), validation=0.0)
    chosen = sampler(0.1)(CLIENTS, Moment())

    def partita(on: str | None) -> Measured:
        return measured_round(
            fedavg(epochs=1, optimizer=SGD(RATE)),
            mlp,
            data,
            batching=Batching(BATCH),
            participation=0.1,
            evaluated=False,
            on=on,
            count=6,
        )

    def floor() -> Measured:
        return in_processes(partial(_prepare, data, chosen), [EACH] * len(chosen))

    return Workload(
        about=workload.__doc__ or "",
        contenders={"partita": partial(partita, None), "one worker": partial(partita, "inline"), "floor": floor},
        goals=[
            Goal("partita", "floor", at_most=1.15),
            Goal("flower", "partita", at_least=20.0),
            Goal("pfl", "partita", at_least=3.0),
        ],
        peers=["flower", "pfl"],
        division=data,
    )


def quick() -> Workload:
    """The same."""
    return workload()


def _prepare(data: Federation, chosen: Sequence[int], places: Sequence[int]) -> Callable[[], None]:
    """A loop of torch as anybody would write it."""
    held = [data[chosen[place]].train.alone() for place in places]
    start = [tensor.detach() for tensor in mlp(shape=data.shape, classes=data.classes).parameters()]

    def work() -> None:
        for samples in held:
            weights = [tensor.clone().requires_grad_() for tensor in start]
            for rows in torch.split(torch.randperm(len(samples)), BATCH):
                some = samples.take(rows)
                hidden = F.relu(F.linear(some.inputs.flatten(1), weights[0], weights[1]))
                loss = F.cross_entropy(F.linear(hidden, weights[2], weights[3]), some.targets)
                with torch.no_grad():
                    torch._foreach_sub_(weights, torch.autograd.grad(loss, weights), alpha=RATE)

    return work
