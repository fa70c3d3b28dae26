"""A federation that is being watched: four sites in one process, of whom one is slow and one refuses."""

import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from deploy.federations import DATA, experiment, sites_of
from partita.algorithms.fedper import fedper
from partita.api.run import keep
from partita.deploy.deployment import Deployment
from partita.deploy.journal import Journal
from partita.deploy.plan import Plan
from partita.deploy.server import Limits, Sites, introduced
from partita.errors import PartitaError
from partita.models.mlp import mlp

NAMES = ("anna", "ben", "cleo", "<b>dora</b>")
LIMITS = Limits(seconds=600, replies=1)


def made_run(folder: Path, rounds: int = 4) -> Path:
    """A run to its end, in which the last site is not there in the second round; returns its folder."""
    run = folder / "run"
    made = experiment(fedper(), model=partial(mlp, hidden=5), rounds=rounds, participation="all")
    plan = Plan.of(made, NAMES)
    Deployment(plan, LIMITS, folder)._write(run)
    journal = Journal(run)
    journal.note("started", process=os.getpid())
    asked = 0
    with sites_of(plan, DATA, folder) as sites:

        def exchange(orders: Mapping[int, bytes], seconds: float) -> Iterator[tuple[int, bytes | PartitaError]]:
            nonlocal asked
            asked += 1
            journal.online(list(plan.sites))
            for number, order in orders.items():
                # Introductions, training, evaluation, and now training again.
                gone = asked == 4 and number == len(sites) - 1
                yield number, PartitaError("the site is not connected") if gone else sites[number].answer(order)

        remote = plan.experiment_on(introduced(plan, exchange, LIMITS, journal.note))
        keep(remote, run, baselines=None, on=Sites(plan, exchange, LIMITS, note=journal.note))
    journal.note("ended")
    journal.close()
    return run


def go_on(run: Path, **sizes: int) -> None:
    """As if the server asked again: sites that are named get so many bytes."""
    journal = Journal(run)
    journal.note("started", process=os.getpid())
    journal.online(list(sizes))
    journal.note("asked", kind="train", round=5, sites=sizes, seconds=600.0)
    journal.close()
