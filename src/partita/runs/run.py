"""How is an experiment run so that nothing is lost? In a folder of its own, and resumed from there."""

import datetime
import os
import re
from collections.abc import Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from ..data.federation import Federation, federate
from ..data.manifests import fingerprint, manifest_of
from ..data.pool import Pool
from ..errors import PartitaError
from ..evaluation.scores import used_model
from ..experiment.experiment import Experiment, OnRound, data_of, make
from ..experiment.settings import pool_and_division
from ..simulation.result import Progress, Result
from ..simulation.simulate import Checkpoint
from ..tensors import Tensors
from .database import DATABASE
from .environment import environment
from .facts import facts_of
from .models import experiment_of
from .recorder import Recorder
from .states import States
from .store import Store

INTERVAL = 1
BUDGET = 1 << 30
"""Bytes of clients' states in memory; beyond that they are read from the store."""
BASELINES = "baselines"
"""The folder that holds the baselines of the runs beside it."""
MOST_CLIENTS = 100_000
"""Up to so many, a run keeps who has which rows; beyond, where the division came from and its fingerprint."""


def start(
    settings: Mapping[str, Any],
    folder: Path,
    *,
    interval: int = INTERVAL,
    budget: int = BUDGET,
    baselines: Path | None = None,
    on_round: OnRound | None = None,
) -> Result:
    """Run an experiment in a new folder; commits every `interval` rounds.

    `baselines` is the folder where those of the run are to be found or made, which `add_baselines` does.
    """
    if interval < 1:
        raise PartitaError(f"A commit every {interval} rounds: it must be at least 1.")
    experiment, pool = _prepared(settings)
    whole = len(experiment.data) <= MOST_CLIENTS
    about = {
        "settings": dict(settings),
        "label": experiment.algorithm.label,
        "model": used_model(experiment.algorithm),
        "oracle_validation": experiment.oracle_validation,
        "data": experiment.data.name,
        "origin": _plain(experiment.data.origin),
        "fingerprint": fingerprint(experiment.data),
        "division": "whole" if whole else "origin and fingerprint alone: there are too many clients",
        "newcomers": sorted(experiment.data.newcomers),
        "clients": len(experiment.data),
        "evaluated": min(len(experiment.data), experiment.evaluation_clients),
        "rounds": experiment.rounds,
        "metric": experiment.data.metric,
        "environment": environment(),
        "started": _now(),
        "interval": interval,
        "budget": budget,
        "baselines": os.path.relpath(baselines, folder) if baselines else None,
        "status": "running",
    }
    manifest = manifest_of(experiment.data, pool) if whole else None
    with Store.create(folder, about, facts_of(experiment), manifest) as store:
        return _carry_on(experiment, store, on_round)


def resume(folder: Path, *, on_round: OnRound | None = None) -> Result:
    """Go on where a run was; a run that is done is only read."""
    with Store.open(folder, write=True) as store:
        return _carry_on(experiment_of(folder, store.about), store, on_round)


def new_folder(parent: Path, settings: Mapping[str, Any]) -> Path:
    """A folder of that parent that does not exist yet, named after method and data."""
    chosen = (settings[key] for key in ("algorithm", "data"))
    parts = (each if isinstance(each, str) else each["name"] for each in chosen)
    name = "-".join(re.sub(r"[^A-Za-z0-9_.]+", "_", part) for part in parts)
    return next(path for number in count(1) if not (path := parent / f"{name}-{number}").exists())


def replica(settings: Mapping[str, Any], number: int) -> dict[str, Any]:
    """The same experiment under another seed, on the same division of the data, so that clients can be paired."""
    seed = settings.get("seed", 0)
    data = settings["data"]
    return {
        **settings,
        "seed": seed + number,
        "data": {"seed": seed, **({"name": data} if isinstance(data, str) else data)},
    }


def find_runs(folder: Path) -> list[Path]:
    """The runs in a folder and below it; baselines only of a folder that is theirs."""
    found = (path.parent for path in folder.rglob(DATABASE))
    return sorted(path for path in found if BASELINES not in path.relative_to(folder).parts)


def runs_in(folders: Sequence[Path]) -> list[Path]:
    """The runs that folders are or hold, each once; what lies below a run is its own."""
    below = {folder: find_runs(folder) for folder in folders}
    found = [path for folder, paths in below.items() for path in ([folder] if folder in paths else paths)]
    if not found:
        raise PartitaError(f"No runs in {', '.join(map(str, folders))}. Make one with: partita run")
    return list(dict.fromkeys(found))


def _prepared(settings: Mapping[str, Any]) -> tuple[Experiment, Pool | None]:
    """The experiment, and its data before they were divided, unless they come divided."""
    found = pool_and_division(data_of(settings), "data")
    if isinstance(found, Federation):
        return make({**settings, "data": found}), None
    pool, division = found
    return make({**settings, "data": federate(pool, **division)}), pool


def _carry_on(experiment: Experiment, store: Store, on_round: OnRound | None) -> Result:
    about = store.about
    weights: Tensors = {}
    done = store.done
    if not done:
        store.note("status", "running")
    for stage in experiment.stages:
        states = States(store, stage.name, about["budget"])
        recorder = Recorder(store, stage.name, states, about["interval"])

        def after_round(name: str, progress: Progress, recorder: Recorder = recorder) -> None:
            recorder(progress)
            if on_round:
                on_round(name, progress)

        try:
            checkpoint = _checkpoint(store, stage.name)
            result = experiment.simulate(stage, weights, after_round, start=checkpoint, own=states)
        except BaseException as problem:
            recorder.commit()
            store.note("status", "interrupted" if isinstance(problem, KeyboardInterrupt) else f"failed: {problem}")
            raise
        weights = result.network_weights()
    if not done:
        store.note("ended", _now())
        store.note("status", "done")
    return result


def _checkpoint(store: Store, stage: str) -> Checkpoint | None:
    found = store.server(stage)
    if found is None:
        return None
    return Checkpoint(found[0], found[1], store.records(stage), store.traffic(stage))


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def _plain(value: object) -> object:
    """What JSON can say; all else as text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
