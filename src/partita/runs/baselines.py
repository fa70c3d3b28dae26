"""What is a run compared with? Local training, the global model, and that fine-tuned, on the same clients."""

import inspect
import os
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from ..core.algorithm import Algorithm
from ..core.optimizers import OPTIMIZERS, SGD, Adaptive
from ..core.samples import Samples
from ..core.schedules import Schedule
from ..core.selectors import Selector
from ..data.federation import Federation
from ..errors import DegenerateWarning, PartitaError
from ..experiment.experiment import Experiment, OnRound, data_of, make
from .once import OnWait, folder_for, run_once
from .run import BASELINES
from .store import Store

FINETUNE_EPOCHS = 5


@dataclass(frozen=True)
class Baseline:
    """One run, and which of its models serve as baselines, by name: (model, label)."""

    name: str
    settings: dict[str, Any]
    models: Mapping[str, tuple[str, str]]


def baselines_of(settings: Mapping[str, Any]) -> list[Baseline]:
    """Of an experiment: with its data, network, rounds, seed, participation and batches.

    They train with the method's own `epochs` and `optimizer`, where it has both, else with FedAvg's defaults. The
    global model is fine-tuned as the method does, where it does, else for five epochs at the rate of the training.
    Pretraining is part of the global model; local training makes as many rounds instead.
    """
    experiment = _without_data(settings)
    training = _training(experiment.algorithm)
    before = experiment.pretrain.rounds if experiment.pretrain else 0
    shared = _shared(settings, experiment)
    alone = {
        **{key: value for key, value in shared.items() if key not in ("pretrain", "server")},
        "algorithm": {"name": "local", **training},
        "rounds": experiment.rounds + before,
    }
    together = {
        **shared,
        "algorithm": {
            "name": "finetune",
            **_finetuning(experiment.algorithm, training),
            "on": {"name": "fedavg", **training},
        },
    }
    return [
        Baseline("local", alone, {"local": ("before_local", "local")}),
        Baseline(
            "finetune",
            together,
            {
                "global": ("before_local", "fedavg"),
                "global + fine-tune": ("after_finetune", "finetune on fedavg"),
            },
        ),
    ]


def add_baselines(
    folder: Path,
    *,
    place: Path | None = None,
    on_round: OnRound | None = None,
    on_wait: OnWait | None = None,
) -> list[dict[str, str]]:
    """Make the baselines of a run that is done, or find them, and note where they are.

    They are runs of their own in `place`, by default where the run says, or beside it in `baselines`. Those that are
    there are used again; one that cannot be made is noted with its problem (the analysis `baselines_failed`).
    """
    with Store.open(folder) as store:
        store.need_done()
        about = store.about
    place = place or folder / (about["baselines"] or f"../{BASELINES}")
    place = Path(os.path.normpath(place))
    found: list[dict[str, str]] = []
    failed: list[dict[str, str]] = []
    for baseline in baselines_of(about["settings"]):
        # A method that is a baseline itself is not run again.
        alike = baseline.settings["rounds"] == about["rounds"]
        own = {name for name, (_, label) in baseline.models.items() if label == about["label"] and alike}
        where = folder
        if not own & {"local", "global + fine-tune"}:
            where = folder_for(baseline.name, baseline.settings, place, about["fingerprint"])
            try:
                run_once(baseline.settings, where, _named(baseline.name, on_round), on_wait)
            except PartitaError as problem:
                failed += [{"name": name, "problem": str(problem)} for name in baseline.models]
                continue
        for name, (model, label) in baseline.models.items():
            run = folder if name in own else where
            found.append({"name": name, "run": os.path.relpath(run, folder), "model": model, "label": label})
    with Store.open(folder, write=True) as store:
        store.add_analysis("baselines", found)
        store.add_analysis("baselines_failed", failed)
    return found


def _without_data(settings: Mapping[str, Any]) -> Experiment:
    """Of the experiment only what it does is asked; its data, which may take long to read, are left out."""
    nobody = Federation(Samples(torch.zeros(0), torch.zeros(0)), (), classes=0)
    with warnings.catch_warnings():
        # The run itself has told already what is degenerate.
        warnings.simplefilter("ignore", DegenerateWarning)
        return make({**settings, "data": nobody})


def _named(name: str, on_round: OnRound | None) -> OnRound | None:
    """Progress under the baseline's name."""
    if on_round is None:
        return None
    shown = f"baseline {name}"
    return lambda stage, progress: on_round(shown if stage == "run" else f"{shown}, {stage}", progress)


def _shared(settings: Mapping[str, Any], experiment: Experiment) -> dict[str, Any]:
    """What all baselines have in common with the experiment, written in one way."""
    model = settings["model"]
    return {
        **{key: value for key, value in settings.items() if key not in ("algorithm", "oracle_validation")},
        "model": {"name": model} if isinstance(model, str) else model,
        "data": data_of(settings),
        "rounds": experiment.rounds,
        "seed": experiment.seed,
        "participation": experiment.participation,
        "batching": asdict(experiment.batching),
        "evaluate_every": 0,
    }


def _chain(algorithm: Algorithm) -> Iterator[Algorithm]:
    """A method, what it is built on, and so on."""
    yield algorithm
    on = algorithm.settings.get("on")
    if isinstance(on, Algorithm):
        yield from _chain(on)


def _training(algorithm: Algorithm) -> dict[str, Any]:
    *_, innermost = _chain(algorithm)
    epochs, optimizer = (innermost.settings.get(key) for key in ("epochs", "optimizer"))
    if isinstance(epochs, int) and isinstance(optimizer, SGD | Adaptive):
        return {"epochs": epochs, "optimizer": optimizer_settings(optimizer)}
    return {"epochs": 1, "optimizer": optimizer_settings(SGD(0.1))}


def _finetuning(algorithm: Algorithm, training: Mapping[str, Any]) -> dict[str, Any]:
    for each in _chain(algorithm):
        prefix = "" if each.name == "finetune" else "finetune_"
        epochs, optimizer = (each.settings.get(prefix + key) for key in ("epochs", "optimizer"))
        if isinstance(epochs, int) and isinstance(optimizer, SGD | Adaptive):
            return {"epochs": epochs, "optimizer": optimizer_settings(optimizer)}
    steady = {key: value for key, value in training["optimizer"].items() if key != "schedule"}
    return {"epochs": FINETUNE_EPOCHS, "optimizer": steady}


def optimizer_settings(optimizer: SGD | Adaptive) -> dict[str, Any]:
    """An optimizer as an experiment file would name it."""
    name = optimizer.second if isinstance(optimizer, Adaptive) else "sgd"
    known = inspect.signature(OPTIMIZERS[name]).parameters
    given = {field.name: getattr(optimizer, field.name) for field in fields(optimizer) if field.name in known}
    return {
        "name": name,
        **{key: _plain(value) for key, value in given.items() if _plain(value) != _plain(known[key].default)},
    }


def _plain(value: object) -> object:
    if isinstance(value, Schedule | Selector):
        return str(value)
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
