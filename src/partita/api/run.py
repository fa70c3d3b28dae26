"""How is an experiment run and kept? In a folder, with its baselines and its guard; an unfinished run is resumed."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args, overload

from torch import nn
from typing_extensions import Unpack

from ..core.algorithm import Algorithm
from ..core.signatures import named_arguments
from ..data.federation import Federation
from ..data.pool import Pool
from ..errors import PartitaError, warn
from ..experiment.events import OnEvent, ignore
from ..experiment.executor import Executor
from ..experiment.experiment import Experiment, Options
from ..experiment.simulate import experiment_of
from ..experiment.tasks import Factory
from ..runs.folders import BESIDE, BESIDE_SEEDS
from ..runs.record import BaselinesPlace
from ..runs.reuse import session_for
from ..runs.trackers.tracking import need_trackers
from .finish import finish
from .kept import Run, report_of
from .seeds import Runs

Way = Literal["tuned", "quick"]
WAYS: tuple[Way, ...] = get_args(Way)
Baselines = bool | Way
"""Whether baselines are made beside a run: tuned on validation data (also True), at one default rate, or not at all."""


@overload
def run(
    algorithm: Algorithm,
    model: nn.Module | Factory,
    data: Federation | Pool,
    *,
    folder: Path | str,
    seeds: None = None,
    baselines: Baselines = True,
    commit_every: int = 1,
    track: Sequence[str] = (),
    on: Executor | str | None = None,
    on_event: OnEvent = ignore,
    **options: Unpack[Options],
) -> Run: ...


@overload
def run(
    algorithm: Algorithm,
    model: nn.Module | Factory,
    data: Federation | Pool,
    *,
    folder: Path | str,
    seeds: int,
    baselines: Baselines = True,
    commit_every: int = 1,
    track: Sequence[str] = (),
    on: Executor | str | None = None,
    on_event: OnEvent = ignore,
    **options: Unpack[Options],
) -> Runs: ...


@named_arguments
def run(
    algorithm: Algorithm,
    model: nn.Module | Factory,
    data: Federation | Pool,
    *,
    folder: Path | str,
    seeds: int | None = None,
    baselines: Baselines = True,
    commit_every: int = 1,
    track: Sequence[str] = (),
    on: Executor | str | None = None,
    on_event: OnEvent = ignore,
    **options: Unpack[Options],
) -> Run | Runs:
    """Run an experiment and keep it in a folder, with its baselines, its guard and its report.

    If the folder holds an unfinished run, it is resumed and ends with the same bits as without the interruption; a
    finished run is only read. The objects must be the same as before: their code and values are compared, and a
    difference is an error that names it. `baselines` are made beside it: their learning rates are chosen on validation
    data; "quick" uses one default rate instead, which the report says; False makes none. `seeds` repeats the experiment
    under that many seeds on the same division of the data, each in a subfolder. `options` are the fields of
    `Experiment`: rounds, seed, participation, batching and others. `track` names trackers, such as `tensorboard` or
    `mlflow:ADDRESS`. `on` is the executor; it does not change the result.
    """
    if not isinstance(baselines, bool) and baselines not in WAYS:
        raise PartitaError(
            f"baselines is {baselines!r}, but must be one of {', '.join(map(repr, WAYS))}, True or False."
        )
    experiment, place = experiment_of(algorithm, model, data, options), Path(folder)
    track = [track] if isinstance(track, str) else track
    if seeds is None:
        made: Run | Runs = keep(
            experiment,
            place,
            baselines=BESIDE if baselines else None,
            baseline_tuning=baselines != "quick",
            commit_every=commit_every,
            track=track,
            on=on,
            on_event=on_event,
        )
    else:
        made = keep_seeds(
            experiment,
            place,
            seeds,
            baselines=baselines,
            commit_every=commit_every,
            track=track,
            on=on,
            on_event=on_event,
        )
    report_of(made)
    return made


def keep(
    experiment: Experiment,
    folder: Path,
    *,
    baselines: BaselinesPlace | None = BESIDE,
    baseline_tuning: bool = True,
    commit_every: int = 1,
    track: Sequence[str] = (),
    on: Executor | str | None = None,
    on_event: OnEvent = ignore,
) -> Run:
    """Run an experiment in a folder, or resume it; then make its baselines and its guard."""
    need_trackers(track)
    with session_for(
        experiment,
        folder,
        baselines=baselines,
        baseline_tuning=baseline_tuning,
        commit_every=commit_every,
        on=on,
        on_event=on_event,
    ) as session:
        finish(session, track)
        return Run.of(session)


def keep_seeds(
    experiment: Experiment,
    folder: Path,
    seeds: int,
    *,
    baselines: Baselines = True,
    commit_every: int = 1,
    track: Sequence[str] = (),
    on: Executor | str | None = None,
    on_event: OnEvent = ignore,
) -> Runs:
    """The same experiment under several seeds, on the same division of the data, so that clients can be paired."""
    if isinstance(seeds, bool) or not isinstance(seeds, int) or seeds < 1:
        raise PartitaError(f"seeds is {seeds!r}, but must be a whole number of at least 1.")
    if seeds > 1 and isinstance(experiment.model, nn.Module):
        warn(
            "The network is a module, whose weights the seed does not decide: all seeds begin with the same weights. "
            "Give its class, or a function that makes it."
        )
    return Runs(
        folder,
        [
            keep(
                replace(experiment, seed=seed),
                folder / f"seed-{seed}",
                baselines=BESIDE_SEEDS if baselines else None,
                baseline_tuning=baselines != "quick",
                commit_every=commit_every,
                track=track,
                on=on,
                on_event=on_event,
            )
            for seed in range(experiment.seed, experiment.seed + seeds)
        ],
    )
