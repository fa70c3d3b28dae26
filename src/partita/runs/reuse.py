"""How is an experiment run once and used again? In a folder named after what decides its result."""

import hashlib
import json
import time
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from ..errors import PartitaError
from ..experiment.description import describe_experiment
from ..simulation.events import OnEvent, Waiting, ignore
from ..simulation.executor import Executor
from ..simulation.experiment import Experiment
from .database import DATABASE, BusyError
from .folders import TakenError
from .record import BaselinesPlace
from .session import COMMIT_EVERY, Session

PAUSE = 0.5
"""Seconds between two looks at a run that another process works on."""
PATIENCE = 1800.0
"""Seconds without a commit after which that process is taken to be stuck."""


def folder_for(name: str, experiment: Experiment, place: Path) -> Path:
    """Where a run of this experiment belongs. All that decides a number of it is in the name."""
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
    """The session of the run in a folder: a new one, or one that goes on with what is there.

    Another process that works on the run is waited for, as long as it commits.
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
            # Another process has made the run since it was looked for.
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
                    "End that process, or let it go on, and try again."
                ) from None
            time.sleep(PAUSE)


def _last_written(folder: Path) -> object:
    """Changes with every commit: when the database and its log were last written to, and how large they are."""
    found = []
    for name in (DATABASE, f"{DATABASE}-wal"):
        with suppress(FileNotFoundError):
            state = (folder / name).stat()
            found.append((name, state.st_mtime_ns, state.st_size))
    return found
