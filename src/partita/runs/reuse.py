"""How is an experiment run once and reused? In a folder named after everything that affects its result."""

import hashlib
import json
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from ..errors import PartitaError
from ..experiment.events import OnEvent, Waiting, ignore
from ..experiment.executor import Executor
from ..experiment.experiment import Experiment
from ..experiment.settings.description import describe_experiment
from .database import DATABASE, BusyError
from .folders import TakenError
from .record import BaselinesPlace
from .session import COMMIT_EVERY, Session

PAUSE = 0.5
"""Seconds between two checks of a run that another process is working on."""
PATIENCE = 1800.0
"""Seconds without a commit after which the other process counts as stuck."""


def folder_for(name: str, experiment: Experiment, place: Path) -> Path:
    """The folder for a run of this experiment. Its name depends on everything that affects a number of the run."""
    text = json.dumps(
        [describe_experiment(experiment), experiment.data.fingerprint, version("partita")], sort_keys=True
    )
    return place / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def session_for(
    experiment: Experiment,
    folder: Path,
    *,
    baselines: BaselinesPlace | None = None,
    baseline_tuning: bool = True,
    commit_every: int = COMMIT_EVERY,
    on: Executor | str | None = None,
    on_event: OnEvent = ignore,
) -> Session:
    """A session for the run in a folder, which is made if it does not exist.

    If another process is working on the run, this waits for it as long as it commits.
    """
    waited_for: tuple[object, float] | None = None
    while True:
        try:
            if (folder / DATABASE).exists():
                return Session.open(folder, experiment, on=on, on_event=on_event)
            return Session.start(
                experiment,
                folder,
                commit_every=commit_every,
                baselines=baselines,
                baseline_tuning=baseline_tuning,
                on=on,
                on_event=on_event,
            )
        except TakenError:
            # Another process has made the run in the meantime.
            continue
        except BusyError:
            written, now = _last_written(folder), time.monotonic()
            if waited_for is None:
                on_event(Waiting(folder))
            if waited_for is None or waited_for[0] != written:
                waited_for = (written, now)
            if now - waited_for[1] > PATIENCE:
                raise PartitaError(
                    f"Another process holds {folder}, but has not committed anything for {PATIENCE / 60:.0f} minutes. "
                    "End that process, or let it finish, and try again."
                ) from None
            time.sleep(PAUSE)


def _last_written(folder: Path) -> object:
    """When the database and its log were last written, and their sizes; every commit changes this."""
    found = []
    for name in (DATABASE, f"{DATABASE}-wal"):
        with suppress(FileNotFoundError):
            state = (folder / name).stat()
            found.append((name, state.st_mtime_ns, state.st_size))
    return found
