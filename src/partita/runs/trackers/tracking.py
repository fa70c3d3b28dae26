"""How is a run reported to trackers? Round by round; if a tracker fails, the run continues without it."""

import datetime
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ...errors import PartitaError, unknown
from ...evaluation.scores import Record, summarize
from ...experiment.events import Event, OnEvent, RoundEnded
from ...experiment.experiment import Experiment
from ...experiment.settings.description import describe_experiment
from ...extras import optional
from ..session import Session
from .mlflow import mlflow
from .tensorboard import tensorboard
from .tracker import About, Tracker
from .wandb import wandb

TRACKERS: dict[str, Callable[[About], Tracker]] = {"tensorboard": tensorboard, "mlflow": mlflow, "wandb": wandb}
PACKAGES = {"tensorboard": "torch.utils.tensorboard", "mlflow": "mlflow", "wandb": "wandb"}


def need_trackers(given: Sequence[str]) -> None:
    """Refuse trackers that are unknown or not installed, before anything is run."""
    for text in given:
        kind = text.partition(":")[0]
        if kind not in TRACKERS:
            raise PartitaError(unknown("tracker", kind, TRACKERS))
        if kind in PACKAGES:
            optional(PACKAGES[kind], "partita[track]")


@contextmanager
def tracking(given: Sequence[str], experiment: Experiment, session: Session | None = None) -> Iterator[OnEvent]:
    """Open trackers, as in `tensorboard` or `mlflow:ADDRESS`; the returned function reports each round to them.

    A session that resumes a run continues it in the tool too, where the tool allows.
    """
    known = session.record.trackers if session else {}
    stages = [stage.name for stage in experiment.stages]
    done = sum(len(session.store.rounds(stage)) for stage in stages) if session else 0
    folder = session.folder if session else None
    before = experiment.pretrain.rounds if experiment.pretrain else 0
    opened: dict[str, Tracker] = {}

    def tell(event: Event) -> None:
        if not isinstance(event, RoundEnded) or event.stage not in stages:
            return
        step = event.round + (before if event.stage == "run" else 0)
        found = numbers(event, experiment.data.newcomers)
        for text, tracker in list(opened.items()):
            with _survived(text, opened):
                tracker.log(found, step)

    need_trackers(given)
    settings = session.record.experiment if session else describe_experiment(experiment)
    about = (_name(folder, experiment), settings)
    status = "done"
    try:
        for text in dict.fromkeys(given):
            kind, _, place = text.partition(":")
            with _survived(text):
                opened[text] = TRACKERS[kind](About(*about, place or None, folder, known.get(text), done + 1))
        if session and opened:
            session.store.note(trackers={**known, **{text: tracker.id for text, tracker in opened.items()}})
        yield tell
    except BaseException as problem:
        status = "interrupted" if isinstance(problem, KeyboardInterrupt) else f"failed: {problem}"
        raise
    finally:
        for text, tracker in list(opened.items()):
            with _survived(text):
                tracker.close(status)


def numbers(ended: RoundEnded, newcomers: frozenset[int] = frozenset()) -> dict[str, float]:
    """What is new after a round: scores over clients by role and model where they were measured, time and traffic."""
    above = "" if ended.stage == "run" else f"{ended.stage}/"
    found = {
        f"{above}seconds": ended.seconds,
        f"{above}participants": float(ended.participants),
        **({f"{above}left_out": float(len(ended.left_out))} if ended.left_out else {}),
        f"{above}bytes/down": float(sum(each.down for each in ended.traffic)),
        f"{above}bytes/up": float(sum(each.up for each in ended.traffic)),
    }
    groups: dict[str, list[Record]] = {}
    for record in ended.records:
        who = "newcomers/" if record.client in newcomers else ""
        groups.setdefault(f"{above}{who}{record.role}/{record.variant}", []).append(record)
    for group, records in groups.items():
        summary = summarize(records)
        for what in ("micro", "macro", "std", "worst_decile"):
            found[f"{group}/{ended.metric}_{what}"] = getattr(summary, what)
    return found


@contextmanager
def _survived(text: str, opened: dict[str, Tracker] | None = None) -> Iterator[None]:
    """A failure of a tracker is reported once; then the tracker is left out."""
    try:
        yield
    except PartitaError:
        raise
    except Exception as problem:
        # Trackers are other programs and servers: no error of theirs may end a run.
        if opened is not None:
            del opened[text]
        warnings.warn(
            f"The tracker {text} failed and is left out; the run continues: {problem or type(problem).__name__}",
            stacklevel=4,
        )


def _name(folder: Path | None, experiment: Experiment) -> str:
    """The run's folder in one word; or method, data and time."""
    if folder:
        return "_".join(part for part in folder.parts if part not in (folder.anchor, "..", "."))
    names = [re.sub(r"[^A-Za-z0-9_.]+", "_", each) for each in (experiment.algorithm.name, experiment.data.name)]
    return "-".join([*names, f"{datetime.datetime.now():%Y%m%d-%H%M%S-%f}"])
