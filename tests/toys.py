"""Set-ups small enough to work out by hand."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from partita.core.batching import Batching
from partita.core.client import Client
from partita.core.objectives import Measures
from partita.core.optimizers import SGD
from partita.core.samples import Samples
from partita.core.task import Task
from partita.data.federation import Federation
from partita.data.split import Role
from partita.randomness import Moment


class Scalars(nn.Module):
    """Parameters of one number each; the output is their sum, whatever the input."""

    def __init__(self, **values: float) -> None:
        super().__init__()
        for name, value in values.items():
            self.register_parameter(name, nn.Parameter(torch.tensor(value, dtype=torch.float64)))

    def forward(self, inputs: Tensor) -> Tensor:
        total = torch.stack(list(self.parameters())).sum()
        return total.expand(len(inputs))


def half_squared_error(outputs: Tensor, targets: Tensor) -> Tensor:
    """F(w) = (w - a)^2 / 2, so that the gradient is w - a."""
    return ((outputs - targets) ** 2).mean() / 2


def squared_error_measure(outputs: Tensor, targets: Tensor) -> Measures:
    return {
        "count": len(targets),
        "correct": 0,
        "loss": float(((outputs - targets) ** 2).sum() / 2),
    }


def scalar_task(groups: dict[str, str | tuple[str, ...]] | None = None, **values: float) -> Task:
    """A task on `Scalars`, for instance scalar_task(w=0.0), or scalar_task({"head": "v"}, u=0.0, v=0.0)."""
    return Task(Scalars(**values), loss=half_squared_error, measure=squared_error_measure, groups=groups)


def repeated(target: float, count: int = 1) -> Samples:
    """The same target many times, so that every batch is the same."""
    return Samples(torch.zeros(count, 1, dtype=torch.float64), torch.full((count,), target, dtype=torch.float64))


def scalar_client(task: Task, target: float, count: int = 1, *, id: int = 0, moment: Moment | None = None) -> Client:
    """A client of `count` equal samples, in batches of one: an epoch has `count` steps."""
    samples = repeated(target, count)
    return Client(id, task, samples, samples.take(slice(0)), moment or Moment(), Batching(size=1))


def small_network(norm: bool = True) -> nn.Module:
    """Two blocks and a head, in float64, with batch norm unless told otherwise."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        layers: dict[str, nn.Module] = {"layer1": nn.Linear(4, 6), "layer2": nn.Linear(6, 5), "head": nn.Linear(5, 3)}
        net = nn.Sequential()
        net.add_module("layer1", layers["layer1"])
        if norm:
            net.add_module("norm1", nn.BatchNorm1d(6))
        net.add_module("relu1", nn.ReLU())
        net.add_module("layer2", layers["layer2"])
        net.add_module("relu2", nn.ReLU())
        net.add_module("head", layers["head"])
    return net.double()


def small_federation(sizes: Sequence[int] = (12, 7, 20, 9), *, classes: int = 3, seed: int = 0) -> Federation:
    """Clients of unequal size (training samples), each with 4 validation and 6 test samples, in float64."""
    draw = torch.Generator().manual_seed(seed)
    total = sum(sizes) + 10 * len(sizes)
    targets = torch.randint(classes, (total,), generator=draw)
    centres = torch.randn(classes, 4, generator=draw, dtype=torch.float64)
    inputs = centres[targets] + 0.5 * torch.randn(total, 4, generator=draw, dtype=torch.float64)
    roles: list[dict[Role, Tensor]] = []
    begin = 0
    for size in sizes:
        order = torch.arange(begin, begin + size + 10)
        roles.append({"train": order[:size], "validation": order[size : size + 4], "test": order[size + 4 :]})
        begin += size + 10
    return Federation(Samples(inputs, targets), roles, classes=classes, name="toy")


def exploding(rate: float) -> SGD:
    """A rate that is refused where it is given, for what happens to losses and updates behind that."""
    made = SGD(0.1)
    object.__setattr__(made, "lr", rate)
    return made
