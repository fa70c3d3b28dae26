"""Wrong inputs as people give them in Python: networks, arguments and data."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

partita: Any = import_module("partita")
"""Without its types, which would tell most of these mistakes."""
Batching, federate, from_clients = partita.Batching, partita.federate, partita.from_clients
DRAW = torch.Generator().manual_seed(0)
INPUTS, LABELS = torch.randn(24, 8, generator=DRAW), torch.arange(24) % 3
CLIENTS = {"anna": (INPUTS[:12], LABELS[:12]), "ben": (INPUTS[12:], LABELS[12:])}
DATA = from_clients(CLIENTS)


class Net(nn.Module):
    def __init__(self, width: int = 8, classes: int = 3) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(width, 4), nn.Linear(4, classes)

    def forward(self, inputs: Tensor) -> Any:
        return self.head(torch.relu(self.body(inputs)))


class TwoInputs(Net):
    def forward(self, inputs: Tensor, mask: Tensor) -> Any:  # type: ignore[override]
        return super().forward(inputs * mask)


class Tuple(Net):
    def forward(self, inputs: Tensor) -> Any:
        return super().forward(inputs), inputs


class Sequence(Net):
    def forward(self, inputs: Tensor) -> Any:
        return super().forward(inputs)[:, None].expand(-1, 7, -1)


class Answer(Net):
    def forward(self, inputs: Tensor) -> Any:
        return super().forward(inputs).argmax(1)


class Detached(Net):
    def forward(self, inputs: Tensor) -> Any:
        return super().forward(inputs).detach()


class InPlace(Net):
    def forward(self, inputs: Tensor) -> Any:
        hidden = torch.sigmoid(self.body(inputs))
        answer = self.head(hidden)
        hidden += 1
        return answer


class Broken(Net):
    def __init__(self) -> None:
        super().__init__()
        raise ValueError("no such file")


class Words(Net):
    """Takes features, where the data are words."""


def lazy() -> nn.Module:
    return nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 3))


def meta() -> nn.Module:
    with torch.device("meta"):
        return Net()


def try_out(algorithm: Any = None, model: Any = Net, data: Any = DATA, **options: Any) -> Any:
    given = partita.fedper(epochs=1) if algorithm is None else algorithm
    return partita.simulate(given, model, data, **{"rounds": 1, "on": "inline", **options})


def images(channels_last: bool = True) -> Any:
    values = np.zeros((8, 6, 6, 3), dtype=np.float32) if channels_last else np.zeros((8, 3, 6, 6), dtype=np.float32)
    values += np.arange(8, dtype=np.float32).reshape(8, 1, 1, 1)
    return from_clients(values, np.arange(8) % 2, ["a"] * 4 + ["b"] * 4)


def texts() -> Any:
    words = [f"один {number} два" for number in range(8)]
    return from_clients(words, np.arange(8) % 3, ["a"] * 4 + ["b"] * 4, classes=3)


def whole_numbers() -> Any:
    return from_clients(np.arange(64).reshape(8, 8), np.arange(8) % 3, ["a"] * 4 + ["b"] * 4, indices=True)


def pool(targets: Any = LABELS, **more: Any) -> Any:
    return from_clients(INPUTS, targets, ["anna"] * 12 + ["ben"] * 12, **more)


def scaled(factor: float) -> Any:
    return from_clients({**CLIENTS, "ben": (INPUTS[12:] * factor, LABELS[12:])})


def duplicates() -> Any:
    both = {"train": (INPUTS[:12], LABELS[:12]), "test": (INPUTS[:12], LABELS[:12])}
    return from_clients({"anna": both})


def somewhere(**options: Any) -> object:
    """A folder that must not be made, since nothing may begin."""
    return partita.run(
        partita.fedper(epochs=1), Net, DATA, **{"rounds": 1, "on": "inline", "folder": "never", **options}
    )


class Frame:
    """As a data frame looks."""

    columns = ("a", "b")

    def to_numpy(self) -> object:
        return INPUTS.numpy()


CASES: Mapping[str, Callable[[], object]] = {
    "a network of two inputs": lambda: try_out(model=TwoInputs),
    "a network that returns a tuple": lambda: try_out(model=Tuple),
    "a network that answers at every step of a sequence": lambda: try_out(model=Sequence),
    "a network that answers with classes": lambda: try_out(model=Answer),
    "a network for other inputs": lambda: try_out(model=partial(Net, width=5)),
    "a network with too few outputs": lambda: try_out(model=partial(Net, classes=2)),
    "a network that detaches its answer": lambda: try_out(model=Detached),
    "a network that changes what its gradient needs": lambda: try_out(model=InPlace),
    "a network with lazy layers": lambda: try_out(model=lazy),
    "a network on the meta device": lambda: try_out(model=meta),
    "a network that cannot be made": lambda: try_out(model=Broken),
    "a function that makes no network": lambda: try_out(model=lambda: 3),
    "a function that needs what the data do not say": lambda: try_out(model=lambda hidden: Net()),
    "words for a network of features": lambda: try_out(model=Net, data=texts()),
    "whole numbers for a network of features": lambda: try_out(data=whole_numbers()),
    "weights of double precision": lambda: try_out(model=lambda: Net().double()),
    "a network by its name": lambda: try_out(model="mlp"),
    "no network": lambda: try_out(model=None),
    "a network of images on features": lambda: try_out(model=lambda: nn.Conv2d(3, 4, 2)),
    "a loss that is no number": lambda: try_out(loss=lambda outputs, targets: outputs),
    "an algorithm that is not called": lambda: try_out(partita.fedper),
    "a factory in the place of an algorithm": lambda: try_out(lambda: Net(), model=partita.fedper()),
    "an algorithm by its name": lambda: try_out("fedper"),
    "a model in the place of an algorithm": lambda: try_out(Net()),
    "a misspelt option of an algorithm": lambda: partita.fedper(epoch=3),
    "an option without its name": lambda: partita.fedper(3),
    "an option of another type": lambda: partita.fedper(epochs="4"),
    "a number in place of an optimizer": lambda: partita.fedper(optimizer=0.1),
    "an optimizer that is not called": lambda: partita.fedavg(optimizer=partita.adam),
    "a misspelt option of an optimizer": lambda: partita.SGD(0.1, momentun=0.9),
    "a learning rate below zero": lambda: partita.SGD(-0.1),
    "a learning rate that is not a number": lambda: partita.SGD(float("nan")),
    "a rate of the server that is far too large": lambda: partita.averaging(optimizer=partita.adam(1e5)),
    "a rate of a head that is far too large": lambda: partita.fedbabu(head_rate=1e5),
    "a rate of inner steps that is far too large": lambda: partita.pfedme(inner_lr=1e5),
    "a factor on a rate below zero": lambda: partita.SGD(0.1, rates=((partita.HEAD, -1.0),)),
    "momentum of one": lambda: partita.SGD(0.1, momentum=1.0),
    "a learning rate that is far too large": lambda: try_out(partita.fedper(epochs=3, optimizer=partita.SGD(1e5))),
    "a choice that is not offered": lambda: partita.fedalt(toward="one"),
    "a selector that does not parse": lambda: partita.fedalt(personal="head &"),
    "a selector of another kind": lambda: partita.fedalt(personal=3),
    "a selector that matches nothing": lambda: try_out(partita.fedalt(personal="layer9")),
    "more blocks than there are": lambda: try_out(partita.fedper(blocks=9)),
    "a misspelt option of a simulation": lambda: try_out(rouns=3),
    "a misspelt option of a run": lambda: somewhere(seedz=3),
    "no rounds": lambda: try_out(rounds=0),
    "half a round": lambda: try_out(rounds=1.5),
    "rounds as text": lambda: try_out(rounds="3"),
    "a seed as text": lambda: try_out(seed="one"),
    "batches of nothing": lambda: try_out(batching=0),
    "batches as text": lambda: try_out(batching="32"),
    "a misspelt option of batches": lambda: Batching(sise=3),
    "participation of nobody": lambda: try_out(participation=0),
    "a schedule of nobody": lambda: try_out(participation=[[]]),
    "a client that does not exist": lambda: try_out(participation=[[5]]),
    "an engine that does not exist": lambda: try_out(engine="fats"),
    "a device that does not exist": lambda: try_out(device="gpu"),
    "a policy that does not exist": lambda: try_out(on_sick_client="ignore"),
    "a bound below zero": lambda: try_out(max_update_norm=-1),
    "an executor that does not exist": lambda: try_out(on="procesess"),
    "no seeds": lambda: somewhere(seeds=0),
    "half a seed": lambda: somewhere(seeds=1.5),
    "seeds as text": lambda: somewhere(seeds="3"),
    "baselines that nobody makes": lambda: somewhere(baselines="fast"),
    "a tensor as data": lambda: try_out(data=INPUTS),
    "a pair as data": lambda: try_out(data=(INPUTS, LABELS)),
    "a dictionary as data": lambda: try_out(data=CLIENTS),
    "a data frame as data": lambda: try_out(data=Frame()),
    "a dataset as data": lambda: try_out(data=torch.utils.data.TensorDataset(INPUTS, LABELS)),
    "a source that is not called": lambda: try_out(data=partita.digits),
    "no data": lambda: try_out(data=None),
    "a tensor that is to be divided": lambda: federate(INPUTS),
    "a misspelt option of a split": lambda: partita.dirichlet(alhpa=0.1),
    "a misspelt option of a division": lambda: federate(partita.digits(), validatoin=0.1),
    "a misspelt option of one's own data": lambda: from_clients(CLIENTS, clases=3),
    "labels in a column": lambda: pool(LABELS[:, None]),
    "labels in one-hot rows": lambda: pool(torch.nn.functional.one_hot(LABELS)),
    "labels as text, one of them empty": lambda: pool([*["cat"] * 23, ""]),
    "text labels of fewer classes than told": lambda: pool(["cat"] * 24, classes=2),
    "labels with gaps": lambda: pool(LABELS * 1000),
    "labels below zero": lambda: pool(LABELS - 1),
    "labels of halves": lambda: pool(LABELS / 2),
    "inputs that are not numbers": lambda: from_clients(INPUTS / 0, LABELS, ["anna"] * 24),
    "fewer labels than inputs": lambda: pool(LABELS[:5]),
    "images with their channels last": lambda: images(),
    "test rows that are training rows": lambda: duplicates(),
    "nobody's rows": lambda: from_clients(INPUTS, LABELS),
    "one sample for a client": lambda: from_clients({"anna": (INPUTS[:1], LABELS[:1])}),
}
