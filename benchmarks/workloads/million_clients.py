"""Do time and memory grow with the clients sampled, and not with all that there are?"""

import json
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import overload

import torch
from torch import Tensor

from benchmarks.workload import Goal, Measured, Workload, measured_round
from partita.algorithms.fedper import fedper
from partita.core.batching import Batching
from partita.core.optimizers import SGD
from partita.core.samples import Samples
from partita.data.federation import Federation
from partita.data.split import Role
from partita.experiment.tasks import Factory
from partita.models.mlp import mlp
from partita.models.resnet18 import resnet18

EACH, STORED = 20, 100_000
PER_ROUND = 1000


class Rows(Sequence[Mapping[Role, Tensor]]):
    """The rows of any number of clients, worked out when they are asked for: 16 to train, 2 and 2 held out."""

    def __init__(self, clients: int, stored: int) -> None:
        self.clients, self.stored = clients, stored

    def __len__(self) -> int:
        return self.clients

    @overload
    def __getitem__(self, client: int) -> Mapping[Role, Tensor]: ...
    @overload
    def __getitem__(self, client: slice) -> Sequence[Mapping[Role, Tensor]]: ...
    def __getitem__(self, client: int | slice) -> Mapping[Role, Tensor] | Sequence[Mapping[Role, Tensor]]:
        if isinstance(client, slice):
            return [self[each] for each in range(*client.indices(self.clients))]
        if not 0 <= client < self.clients:
            raise IndexError(client)
        rows = torch.arange(client * EACH, (client + 1) * EACH) % self.stored
        return {"train": rows[:16], "validation": rows[16:18], "test": rows[18:]}


def population(clients: int, shape: tuple[int, ...], stored: int = STORED) -> Federation:
    """Clients of 20 samples each, who share a store of random ones."""
    draw = torch.Generator().manual_seed(0)
    samples = Samples(torch.rand(stored, *shape, generator=draw), torch.randint(10, (stored,), generator=draw))
    return Federation(samples=samples, roles=Rows(clients, stored), classes=10, name="synthetic")


def measure(clients: int, model: Factory, shape: tuple[int, ...], per_round: int, stored: int) -> Measured:
    """A round of FedPer, and the most memory that this process and its workers held, counted as if they shared none."""
    found = measured_round(
        fedper(epochs=1, optimizer=SGD(0.05)),
        model,
        population(clients, shape, stored),
        batching=Batching(10),
        participation=per_round / clients,
        evaluated=False,
        count=3,
        on="processes:2",
    )
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    largest_child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return Measured(found.seconds, (own + 2 * largest_child) / 1024, found.processor)


def small(clients: int) -> Measured:
    return measure(clients, mlp, (64,), PER_ROUND, STORED)


def large(clients: int) -> Measured:
    return measure(clients, resnet18, (3, 32, 32), 10, 1000)


def workload() -> Workload:
    """FedPer, an MLP with a personal head, 1,000 clients per round, of 10,000 and of 1,000,000; and a ResNet-18."""
    return Workload(
        about=workload.__doc__ or "",
        contenders={
            "10,000 clients": partial(_alone, "small", 10_000),
            "1,000,000 clients": partial(_alone, "small", 1_000_000),
            "10,000 clients with a ResNet-18": partial(_alone, "large", 10_000),
        },
        goals=[Goal("1,000,000 clients", "10,000 clients", at_most=1.3)],
        most_megabytes={"1,000,000 clients": 2000.0, "10,000 clients with a ResNet-18": 3000.0},
    )


def _alone(name: str, clients: int) -> Measured:
    """In a process of its own, so that nothing else counts as its memory."""
    code = f"from benchmarks.workloads import million_clients as it; it.tell(it.{name}({clients}))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


def tell(measured: Measured) -> None:
    print(json.dumps(asdict(measured)))
