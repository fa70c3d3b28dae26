"""What is served in the benchmark of serving? CNN4 with a head of its own for each client, drawn at random."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch

from partita.core.task import Task
from partita.errors import PartitaError
from partita.evaluation.prediction.inputs import Inputs
from partita.evaluation.prediction.model import About, ClientModel
from partita.models.cnn4 import cnn4
from partita.serving.onboard import Newcomer
from partita.serving.questions import Questions
from partita.tensors import Tensors
from partita.web.served import Load, Models

SHAPE, CLASSES, HIDDEN = (3, 32, 32), 10, 512
CLIENTS = (1, 100, 10_000)
BUDGET = 512 << 20
NAMES = tuple(map(str, range(CLASSES)))
INPUTS = Inputs(SHAPE, "bytes", torch.float32)


CLIENT_NUMBERS = {str(number): number for number in range(max(CLIENTS))}


class Heads:
    """Models of so many clients: one body, and for each a head drawn at random."""

    def __init__(self, count: int) -> None:
        torch.manual_seed(0)
        self.network = Task(cnn4(shape=SHAPE, classes=CLASSES, hidden=HIDDEN)).module.eval()
        self.clients: Sequence[str] = [str(number) for number in range(count)]
        self.inputs = INPUTS

    def personal(self, client: str) -> Tensors:
        draw = torch.Generator().manual_seed(int(client))
        own = {"fc.weight": (CLASSES, HIDDEN), "fc.bias": (CLASSES,)}
        return {name: 0.05 * torch.randn(size, generator=draw) for name, size in own.items()}

    def about(self, client: str) -> About:
        return About(client, int(client), "fedper", "before_local")

    def classes(self, client: str) -> tuple[str, ...]:
        return NAMES

    def model(self, client: str, *, guarded: bool = True) -> ClientModel:
        network = deepcopy(self.network)
        # The network that others are compared with has no client's head, so that every client has one of its own.
        if guarded:
            network.load_state_dict({**self.network.state_dict(), **self.personal(client)})
        return ClientModel(network, self.about(client), INPUTS, NAMES)

    def global_model(self) -> ClientModel:
        return ClientModel(deepcopy(self.network), About(None, -1, "fedavg", "before_local"), INPUTS, NAMES)


@dataclass(frozen=True)
class HeadsEntry:
    """Something to serve that is no folder."""

    count: int
    name: str = "cnn4"

    @property
    def clients(self) -> dict[str, int]:
        return CLIENT_NUMBERS

    def facts(self) -> dict[str, Any]:
        known: dict[str, Any] = {"method": "fedper", "data": "noise", "clients": self.count, "metric": "accuracy"}
        return {**known, "lower_is_better": False, "score": None, "report": False}

    def score(self, client: str) -> float | None:
        return None

    def samples(self, client: str) -> int | None:
        return None

    def client_facts(self, client: str) -> dict[str, Any]:
        return {"samples": None, "counts": None, "labels": None, "scores": {}, "new": False}

    def models(self) -> Heads:
        return Heads(self.count)

    def newcomers(self, models: Models) -> Mapping[str, Load]:
        return {}

    def onboard(self, models: Models, client: str, samples: Questions) -> Newcomer:
        raise PartitaError("not here")

    def add(self, models: Models, newcomer: Newcomer) -> Load:
        raise PartitaError("not here")

    def keeps(self, client: str) -> bool:
        return True

    def report(self) -> str | None:
        return None
