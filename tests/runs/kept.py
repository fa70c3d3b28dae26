"""Small runs that are kept, and everything that can be compared of them."""

import hashlib
import multiprocessing
import os
from collections.abc import Callable
from functools import cache
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from partita.data.pool import Pool, pool
from partita.experiment.events import Event, OnEvent, RoundEnded, ignore
from partita.experiment.executors.inline import inline
from partita.experiment.experiment import Experiment
from partita.experiment.result import Result
from partita.experiment.settings.files import make, trusted
from partita.experiment.simulate import run_stages
from partita.runs.database import DATABASE
from partita.runs.record import RunRecord
from partita.runs.session import Session
from partita.runs.store import Store
from partita.tensors import Tensors

FORK = multiprocessing.get_context("fork")
# Python 3.12 warns of forking while there are threads; here none computes.
forks = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")

SEED = 3


def tiny() -> Pool:
    """A source of data of one's own; its values change with `SEED`."""
    draw = np.random.default_rng(SEED)
    labels = np.arange(96) % 3
    return pool("tiny", (labels[:, None] + draw.normal(size=(96, 4))).astype(np.float32), labels)


def numbers() -> Pool:
    draw = np.random.default_rng(5)
    inputs = draw.normal(size=(120, 3)).astype(np.float32)
    return pool("numbers", inputs, inputs.sum(1), kind="regression")


def tens() -> Pool:
    """Of ten classes no client has all."""
    draw = np.random.default_rng(6)
    labels = draw.integers(0, 10, size=60)
    return pool("tens", draw.normal(size=(60, 3)).astype(np.float32), labels, classes=10)


class Normed(nn.Module):
    """In float64 and with statistics; names are not in the order of the alphabet."""

    def __init__(self, width: int, classes: int) -> None:
        super().__init__()
        self.z = nn.Linear(width, 5).double()
        self.norm = nn.BatchNorm1d(5).double()
        self.head = nn.Linear(5, classes).double()

    def forward(self, inputs: Tensor) -> Tensor:
        hidden: Tensor = self.norm(self.z(inputs.double())).relu()
        outputs: Tensor = self.head(hidden)
        return outputs


def normed(*, shape: tuple[int, ...], classes: int) -> nn.Module:
    return Normed(shape[0], classes)


SETTINGS: dict[str, Any] = {
    "algorithm": "fedper",
    "model": {"name": "mlp", "hidden": 5},
    "data": {"name": f"{__name__}:tiny", "split": {"name": "iid", "clients": 4}},
    "rounds": 5,
    "participation": 0.5,
    "evaluate_every": 2,
    "batching": {"size": 8},
}
REGRESSION = {"name": f"{__name__}:numbers", "split": {"name": "quantity", "clients": 4}}
OWN_LABELS = {"name": f"{__name__}:tens", "own_labels": True, "split": {"name": "iid", "clients": 4}}
METHODS: dict[str, dict[str, Any]] = {
    "fedper": {},
    "ditto": {"algorithm": "ditto"},
    "fedamp": {"algorithm": "fedamp"},
    "adam": {"algorithm": "fedavg", "server": {"optimizer": {"name": "adam", "lr": 0.05}}},
    "pretrain": {"algorithm": "lg_fedavg", "pretrain": {"algorithm": "fedavg", "rounds": 3}},
    "norm": {"algorithm": {"name": "fedamp", "alpha": 0.3, "sigma": 1.0}, "model": f"{__name__}:normed"},
    "babu": {"algorithm": {"name": "fedbabu", "epochs": 2}, "model": f"{__name__}:normed", "buffers": "local"},
}
DIGITS: dict[str, Any] = {
    "algorithm": "fedper",
    "model": {"name": "mlp", "hidden": 16},
    "data": {"name": "digits", "split": {"name": "iid", "clients": 4}},
    "rounds": 12,
    "evaluate_every": 3,
    "batching": {"size": 100},
}


def experiment_of(settings: dict[str, Any]) -> Experiment:
    """The functions that these settings name are our own."""
    return make(trusted(settings))


def start(settings: dict[str, Any], folder: Path, *, on_event: OnEvent = ignore, **more: Any) -> Path:
    """A new run to its end."""
    with Session.start(experiment_of(settings), folder, on_event=on_event, **more) as session:
        session.run()
    return folder


def resume(folder: Path, *, on_event: OnEvent = ignore) -> Path:
    with Session.open(folder, trust=True, on_event=on_event) as session:
        session.run()
    return folder


def simulated(settings: dict[str, Any]) -> Result:
    """The same, but not kept."""
    return run_stages(experiment_of(settings), inline())


def digest(found: Result | Path) -> str:
    """Of every bit of a result or of a stored run: the server's state, what clients keep, metrics and traffic."""
    if isinstance(found, Result):
        return _digest(found.state, dict(found.own), found.records, found.traffic)
    with Store.open(found) as store:
        server = store.server("run")
        assert server is not None
        own = {client: store.own("run", client) or {} for client in store.clients("run")}
        return _digest(server[1], own, store.records("run"), store.traffic("run"))


def _digest(state: Tensors, own: dict[int, Tensors], *numbers: object) -> str:
    found = hashlib.sha256()
    for number, tensors in ((-1, state), *sorted(own.items())):
        for name, tensor in sorted(tensors.items()):
            found.update(f"{number} {name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            found.update(tensor.contiguous().numpy().tobytes())
    found.update(repr([list(each) for each in numbers]).encode())  # type: ignore[call-overload]  # lists of records
    return found.hexdigest()


@cache
def expected(method: str) -> str:
    """Of a run that was not kept."""
    return digest(simulated({**SETTINGS, **METHODS[method]}))


def progress_of(folder: Path, stage: str = "run") -> int:
    with Store.open(folder) as store:
        found = store.server(stage)
        return found[0] if found else 0


def record_of(folder: Path) -> RunRecord:
    with Store.open(folder) as store:
        return store.record


def status(folder: Path) -> str:
    return record_of(folder).status


def same_tensors(one: Tensors, other: Tensors) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def rounds_told(told: list[tuple[str, int]]) -> OnEvent:
    """Notes the stage and number of each round."""

    def note(event: Event) -> None:
        assert isinstance(event, RoundEnded)
        told.append((event.stage, event.round))

    return note


def stop_after(number: int, stage: str = "run") -> OnEvent:
    def stop(event: Event) -> None:
        if isinstance(event, RoundEnded) and (event.stage, event.round) == (stage, number):
            raise KeyboardInterrupt

    return stop


def child(work: Callable[..., object], *given: object) -> BaseProcess:
    """Work in a process of its own."""

    def quietly() -> None:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        try:
            work(*given)
        except KeyboardInterrupt:
            os._exit(130)

    process = FORK.Process(target=quietly)
    process.start()
    return process


def begin_or_go_on(folder: Path, made: Any) -> None:
    """A run of digits, from its start or from where it is; `made` is set when the run is there."""
    there = (folder / DATABASE).exists()
    with Session.open(folder) if there else Session.start(experiment_of(DIGITS), folder, commit_every=2) as session:
        made.set()
        session.run()
