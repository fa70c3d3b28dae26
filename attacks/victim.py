"""What is attacked? Small runs of any method, of which everything that is stored can be compared."""

import hashlib
import os
import sqlite3
from collections import OrderedDict
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path

from torch import nn

from partita.data.federation import Federation, federate
from partita.data.pool import pool
from partita.data.splits.iid import iid
from partita.experiment.events import Event, OnEvent, RoundEnded, ignore
from partita.experiment.experiment import Experiment
from partita.experiment.settings.files import make
from partita.experiment.tasks import Factory
from partita.runs.database import DATABASE
from partita.runs.session import Session
from partita.runs.store import Store
from partita.runs.verify import verify

CLIENTS, ROUNDS = 3, 4
STORED = (
    "SELECT stage, client, part, bytes, checksum FROM parts ORDER BY stage, client, part",
    "SELECT stage, client, round, parts FROM states ORDER BY stage, client",
    "SELECT * FROM metrics ORDER BY rowid",
    "SELECT * FROM traffic ORDER BY rowid",
    "SELECT * FROM left_out ORDER BY rowid",
    "SELECT * FROM outcomes ORDER BY rowid",
    "SELECT stage, round, participants FROM rounds ORDER BY stage, round",
    "SELECT stage, round, states FROM commits ORDER BY stage, round",
    "SELECT key, value FROM record WHERE key NOT IN ('started', 'ended', 'environment') ORDER BY key",
    "SELECT name, value FROM analyses ORDER BY name",
    "SELECT manifest FROM division",
)
"""Everything but times, and the checksums that times are part of."""


@cache
def data() -> Federation:
    import torch

    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(60) % 3
    inputs = labels[:, None] + torch.randn(60, 4, generator=draw)
    return federate(pool("made up", inputs.numpy(), labels.numpy()), iid(clients=CLIENTS))


def normed(*, shape: tuple[int, ...], classes: int) -> nn.Module:
    """A network with batch norm, which every method can use."""
    layers = {"layer1": nn.Linear(shape[0], 4), "norm1": nn.BatchNorm1d(4), "relu1": nn.ReLU()}
    return nn.Sequential(OrderedDict[str, nn.Module](**layers, head=nn.Linear(4, classes)))


def experiment(method: str, **changes: object) -> Experiment:
    settings: dict[str, object] = {
        "algorithm": method,
        "model": {"name": "mlp", "hidden": 4},
        "rounds": ROUNDS,
        "participation": 0.7,
        "evaluate_every": 1,
        "batching": {"size": 8},
        **changes,
    }
    return make(settings, data())


def begin_or_go_on(folder: Path, method: str, on_event: OnEvent = ignore, *, model: Factory | None = normed) -> None:
    """A run to its end, from its start or from where it is."""
    made = experiment(method)
    if model is not None:
        made = replace(made, model=model)
    there = (folder / DATABASE).exists()
    opened = Session.open(folder, made, on="inline") if there else Session.start(made, folder, on="inline")
    with opened as session:
        session.run(on_event)


def stop_after(round: int) -> OnEvent:
    def stop(event: Event) -> None:
        if isinstance(event, RoundEnded) and event.round == round:
            raise KeyboardInterrupt

    return stop


def digest(folder: Path) -> str:
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        rows = [connection.execute(query).fetchall() for query in STORED]
    return hashlib.sha256(repr(rows).encode()).hexdigest()


def verified(folder: Path) -> None:
    with Store.open(folder) as store:
        verify(store)


def forked(work: Callable[[], object]) -> int:
    """Start a process that does the work silently; its code is 0, or 1 after an error. Returns its id."""
    if child := os.fork():
        return child
    code = 1
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        work()
        code = 0
    finally:
        os._exit(code)


def code_of(child: int) -> int:
    """The exit code of a process; of one that a signal ended, the signal below 0."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
