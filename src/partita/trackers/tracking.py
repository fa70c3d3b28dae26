"""How is a run told to trackers? Round by round; and if one of them fails, the run goes on without it."""

import datetime
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import PartitaError, unknown
from ..evaluation.scores import Record, summarize
from ..experiment.experiment import OnRound
from ..runs.database import DATABASE
from ..runs.store import Store
from ..simulation.result import Progress
from .mlflow import mlflow
from .tensorboard import tensorboard
from .tracker import About, Tracker
from .wandb import wandb

TRACKERS: dict[str, Callable[[About], Tracker]] = {"tensorboard": tensorboard, "mlflow": mlflow, "wandb": wandb}
NOTE = "trackers"
"""Under which key a run keeps the ids of its trackers."""


@contextmanager
def tracking(
    given: Sequence[str], settings: Mapping[str, Any] | None = None, folder: Path | None = None
) -> Iterator[OnRound]:
    """Open trackers, as in `tensorboard` or `mlflow:ADDRESS`; what is given back tells them each round.

    Without settings the run that is in the folder is continued, where the tool allows as the same run.
    """
    if settings is not None and folder and (folder / DATABASE).exists():
        # A new run is refused there, and this one's trackers have nothing to do with that.
        yield lambda stage, progress: None
        return
    known, settings, done = _earlier(folder) if settings is None and folder else ({}, settings or {}, 0)
    name = _name(folder, settings)
    opened: dict[str, Tracker] = {}
    before = settings.get("pretrain", {}).get("rounds", 0)
    noted = False

    def tell(stage: str, progress: Progress) -> None:
        nonlocal noted
        if folder and not noted:
            _keep(folder, {**known, **{text: tracker.id for text, tracker in opened.items()}})
            noted = True
        step = progress.round + (before if stage == "run" else 0)
        found = numbers(stage, progress)
        for text, tracker in list(opened.items()):
            with _survived(text, opened):
                tracker.log(found, step)

    status = "done"
    try:
        for text in dict.fromkeys(given):
            kind, _, place = text.partition(":")
            if kind not in TRACKERS:
                raise PartitaError(unknown("tracker", kind, TRACKERS))
            with _survived(text):
                opened[text] = TRACKERS[kind](About(name, settings, place or None, folder, known.get(text), done + 1))
        yield tell
    except BaseException as problem:
        status = "interrupted" if isinstance(problem, KeyboardInterrupt) else f"failed: {problem}"
        raise
    finally:
        for text, tracker in list(opened.items()):
            with _survived(text):
                tracker.close(status)


def numbers(stage: str, progress: Progress) -> dict[str, float]:
    """What is new after a round: scores over clients by role and model where they were measured, time and traffic."""
    above = "" if stage == "run" else f"{stage}/"
    found = {
        f"{above}seconds": progress.seconds,
        f"{above}participants": float(progress.participants),
        f"{above}bytes/down": float(sum(each.down for each in progress.traffic)),
        f"{above}bytes/up": float(sum(each.up for each in progress.traffic)),
    }
    groups: dict[str, list[Record]] = {}
    for record in progress.records:
        who = "newcomers/" if record.client in progress.result.data.newcomers else ""
        groups.setdefault(f"{above}{who}{record.role}/{record.model}", []).append(record)
    for group, records in groups.items():
        summary = summarize(records)
        for what in ("micro", "macro", "std", "worst_decile"):
            found[f"{group}/{progress.metric}_{what}"] = getattr(summary, what)
    return found


@contextmanager
def _survived(text: str, opened: dict[str, Tracker] | None = None) -> Iterator[None]:
    """Whatever goes wrong in a tracker is told once; then it is left out."""
    try:
        yield
    except PartitaError:
        raise
    except Exception as problem:
        # Other people's programs and servers: any error may come, and none is worth a run.
        if opened is not None:
            del opened[text]
        warnings.warn(
            f"The tracker {text} failed and is left out; the run goes on: {problem or type(problem).__name__}",
            stacklevel=4,
        )


def _earlier(folder: Path) -> tuple[dict[str, str], Mapping[str, Any], int]:
    """Ids of trackers, settings and rounds done of the run in a folder."""
    with Store.open(folder) as store:
        about = store.about
        return about.get(NOTE, {}), about["settings"], sum(len(store.rounds(stage)) for stage in ("pretrain", "run"))


def _keep(folder: Path, ids: Mapping[str, str]) -> None:
    # Without the lock: it is held by this very process, which waits for this call.
    with Store.open(folder) as store:
        store.note(NOTE, ids)


def _name(folder: Path | None, settings: Mapping[str, Any]) -> str:
    """The run's folder in one word; or method, data and time."""
    if folder:
        return "_".join(part for part in folder.parts if part not in (folder.anchor, "..", "."))
    chosen = [settings[key] for key in ("algorithm", "data") if key in settings]
    names = [re.sub(r"[^A-Za-z0-9_.]+", "_", each if isinstance(each, str) else each["name"]) for each in chosen]
    return "-".join([*names, f"{datetime.datetime.now():%Y%m%d-%H%M%S-%f}"])
