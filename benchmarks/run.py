"""How long does a round take? Each workload beside a hand-written loop that does the same arithmetic, in one run.

    python benchmarks/run.py [--repeats 5] [--json]

The ratio is the engine's time over the loop's; times of different machines, or of a busy one, do not compare.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from copy import deepcopy

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from partita.algorithms.fedavg import fedavg
from partita.batching import Batching
from partita.data.digits import digits
from partita.federation import Federation, federate
from partita.models.cnn4 import cnn4
from partita.models.mlp import mlp
from partita.optimizers import SGD
from partita.pool import pool
from partita.simulation import simulate
from partita.splits.iid import iid


def images(clients: int, per_client: int) -> Federation:
    """Random images of 32 x 32 x 3, for timing alone."""
    draw = np.random.default_rng(0)
    count = clients * per_client
    inputs = draw.standard_normal((count, 3, 32, 32), dtype=np.float32)
    made = pool("images", inputs, draw.integers(10, size=count), classes=10)
    return federate(made, iid(clients=clients, test=0.01), validation=0.0)


WORKLOADS: dict[str, tuple[Callable[..., nn.Module], Callable[[], Federation]]] = {
    "fedavg, mlp on digits, 20 clients": (mlp, lambda: federate(digits())),
    "fedavg, cnn4 on images, 4 clients of 100": (cnn4, lambda: images(4, 100)),
}


def by_hand(model: nn.Module, data: Federation, size: int, lr: float) -> None:
    """One round of FedAvg's arithmetic and nothing else."""
    copies = []
    for client in range(len(data)):
        local = deepcopy(model)
        optimizer = torch.optim.SGD(local.parameters(), lr=lr)
        train = data[client].train
        for part in torch.split(torch.randperm(len(train)), size):
            optimizer.zero_grad()
            torch.autograd.backward(F.cross_entropy(local(train.inputs[part]), train.targets[part]))
            optimizer.step()
        copies.append(local)
    with torch.no_grad():
        for target, *sources in zip(model.parameters(), *(copy.parameters() for copy in copies), strict=True):
            target.copy_(torch.stack(list(sources)).mean(0))


def by_engine(model: nn.Module, data: Federation, size: int, lr: float, rounds: int) -> None:
    algorithm = fedavg(optimizer=SGD(lr))
    simulate(algorithm, model, data, rounds=rounds, batching=Batching(size), evaluate_every=0)


def seconds(work: Callable[..., None], *arguments: object) -> float:
    began = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - began


def measure(factory: Callable[..., nn.Module], data: Federation, repeats: int) -> dict[str, float]:
    """Medians, engine and loop measured in turn."""
    rounds, size, lr = 3, 10, 0.01
    model = factory(shape=data.shape, classes=data.classes)
    # The first call of each imports and allocates what later ones find ready.
    by_engine(model, data, size, lr, 1)
    by_hand(model, data, size, lr)
    pairs = [
        (seconds(by_engine, model, data, size, lr, rounds) / rounds, seconds(by_hand, model, data, size, lr))
        for _ in range(repeats)
    ]
    engine, loop = (statistics.median(times) for times in zip(*pairs, strict=True))
    return {"round_seconds": engine, "loop_seconds": loop, "ratio": engine / loop}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = {name: measure(factory, data(), options.repeats) for name, (factory, data) in WORKLOADS.items()}
    if options.json:
        print(json.dumps(results))
        return
    for name, result in results.items():
        print(f"{name}: {result['round_seconds']:.3f} s per round, {result['ratio']:.2f} times the loop's")


if __name__ == "__main__":
    main()
