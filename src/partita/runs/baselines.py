"""What is a run compared with? Local training, the global model and the fine-tuned global model."""

import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypedDict

from ..algorithms.fedavg import fedavg
from ..algorithms.finetune import finetune
from ..algorithms.local import local
from ..core.algorithm import Algorithm
from ..core.optimizers import SGD, Adaptive
from ..core.schedules import CONSTANT
from ..errors import DegenerateWarning, PartitaError
from ..evaluation.variants import Variant
from ..simulation.events import under
from ..simulation.experiment import Experiment
from .folders import BESIDE
from .reuse import folder_for, session_for
from .session import Session

FINETUNE_EPOCHS = 5


@dataclass(frozen=True, eq=False)
class Baseline:
    """One experiment, and the baselines that it provides: for each name the variant and the label."""

    name: str
    experiment: Experiment
    models: Mapping[str, tuple[Variant, str]]


class _Training(TypedDict):
    epochs: int
    optimizer: SGD | Adaptive


def baselines_of(experiment: Experiment) -> list[Baseline]:
    """The baselines of an experiment, with its data, network, rounds, seed, participation and batches.

    They train with the method's own `epochs` and `optimizer` if it has both, otherwise with FedAvg's defaults. The
    global model is fine-tuned as the method fine-tunes, if it does, otherwise for five epochs at the training rate.
    Pretraining counts as part of the global model; local training runs for that many more rounds instead.
    """
    training = _training(experiment.algorithm)
    before = experiment.pretrain.rounds if experiment.pretrain else 0
    shared = replace(experiment, evaluate_every=0, oracle_validation=False)
    with warnings.catch_warnings():
        # The run itself has warned already.
        warnings.simplefilter("ignore", DegenerateWarning)
        together = finetune(on=fedavg(**training), **_finetuning(experiment.algorithm, training))
    return [
        Baseline(
            "local",
            replace(shared, algorithm=local(**training), rounds=experiment.rounds + before, pretrain=None, server=None),
            {"local": ("before_local", "local")},
        ),
        Baseline(
            "finetune",
            replace(shared, algorithm=together),
            {
                "global": ("before_local", "fedavg"),
                "global + fine-tune": ("after_finetune", "finetune on fedavg"),
            },
        ),
    ]


def add_baselines(session: Session, place: Path | None = None) -> list[dict[str, str]]:
    """Make or find the baselines of a finished run, and record where they are.

    Each baseline is a run in `place`, by default the folder that the run's record names, or `baselines` beside it.
    Existing ones are reused. A baseline that fails is recorded with the reason, in the analysis `baselines_failed`.
    """
    session.need_done()
    folder, record = session.folder, session.record
    place = Path(os.path.normpath(place or folder / (record.baselines or BESIDE)))
    found: list[dict[str, str]] = []
    failed: list[dict[str, str]] = []
    for baseline in baselines_of(session.experiment):
        # A method that is a baseline itself is not run again.
        alike = baseline.experiment.rounds == record.rounds
        own = {name for name, (_, label) in baseline.models.items() if label == record.label and alike}
        where = folder
        if not own & {"local", "global + fine-tune"}:
            where = folder_for(baseline.name, baseline.experiment, place)
            try:
                _make(session, baseline, where)
            except PartitaError as problem:
                failed += [{"name": name, "problem": str(problem)} for name in baseline.models]
                continue
        for name, (variant, label) in baseline.models.items():
            run = folder if name in own else where
            found.append({"name": name, "run": os.path.relpath(run, folder), "variant": variant, "label": label})
    session.store.add_analysis("baselines", found)
    session.store.add_analysis("baselines_failed", failed)
    return found


def _make(session: Session, baseline: Baseline, where: Path) -> None:
    on_event = under(f"baseline {baseline.name}", session.on_event)
    made = session_for(baseline.experiment, where, on=session.executor, on_event=on_event)
    try:
        made.run()
    except BaseException:
        made.close()
        raise
    session.keep_open(made)


def _wrapped(algorithm: Algorithm) -> Iterator[Algorithm]:
    """A method, the method it is built on, and so on down."""
    yield algorithm
    on = algorithm.settings.get("on")
    if isinstance(on, Algorithm):
        yield from _wrapped(on)


def _training(algorithm: Algorithm) -> _Training:
    *_, innermost = _wrapped(algorithm)
    return _found(innermost.settings, "") or {"epochs": 1, "optimizer": SGD(0.1)}


def _finetuning(algorithm: Algorithm, training: _Training) -> _Training:
    for each in _wrapped(algorithm):
        if found := _found(each.settings, "" if each.name == "finetune" else "finetune_"):
            return found
    return {"epochs": FINETUNE_EPOCHS, "optimizer": replace(training["optimizer"], schedule=CONSTANT)}


def _found(settings: Mapping[str, Any], prefix: str) -> _Training | None:
    epochs, optimizer = (settings.get(prefix + key) for key in ("epochs", "optimizer"))
    if isinstance(epochs, int) and isinstance(optimizer, SGD | Adaptive):
        return {"epochs": epochs, "optimizer": optimizer}
    return None
