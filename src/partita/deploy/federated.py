"""How is a plan run over a SuperLink? As any experiment, on data that sites keep, with the sites as its executor."""

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ..experiment.experiment import Experiment
from ..runs.database import DATABASE
from ..runs.stored import read_run
from .carrier import Carrier, Keys
from .journal import Journal
from .plan import Plan
from .server import Limits, Sites, introduced
from .superlink import SuperLink
from .wire import listening


@contextmanager
def federated(
    plan: Plan, superlink: SuperLink, limits: Limits, folder: Path, keys: Keys | None = None
) -> Iterator[tuple[Experiment, Sites]]:
    """The experiment of a plan, after all sites introduced themselves, and what carries it out.

    `folder` is that of the run, and `keys` returns the fingerprints of sites' keys, where they are known. A run that
    is continued goes on without sites that are not there.
    """
    known = introductions(folder)
    with (
        closing(Journal(folder)) as journal,
        TemporaryDirectory() as place,
        listening(socket := Path(place) / "socket") as listener,
        closing(
            Carrier(plan.sites, listener, lambda: superlink.start_app(socket), keys=keys, on_look=journal.online)
        ) as carrier,
    ):
        journal.note("started", process=os.getpid())
        exchange = partial(carrier, absent=limits.absent)
        data = introduced(plan, exchange if known else carrier, limits, journal.note, known)
        try:
            yield plan.experiment_on(data), Sites(plan, exchange, limits, note=journal.note)
        finally:
            journal.note("ended")


def introductions(folder: Path) -> Mapping[str, Mapping[str, int]]:
    """The introductions of sites when the run in a folder started; empty if there is no run yet."""
    if not (folder / DATABASE).exists():
        return {}
    found: Mapping[str, Mapping[str, int]] = read_run(folder).record.origin["sites"]
    return found
