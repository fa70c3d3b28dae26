"""Commands that make and show runs."""

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import PartitaError
from . import standings, terminal
from .options import AsJson, ExperimentFile, Folder, Overrides, Workers, file_and_changes, interruptible, use_workers
from .reporting import REPORT, write_report

if TYPE_CHECKING:
    from ..experiment.experiment import OnRound
    from ..simulation.result import Progress, Result

Track = Annotated[
    list[str] | None,
    typer.Option(
        "--track",
        metavar="TRACKER",
        help="Tell each round to tensorboard[:FOLDER], mlflow[:ADDRESS] or wandb[:PROJECT]; may be repeated, as in "
        "--track tensorboard --track mlflow:http://localhost:5000",
    ),
]


def run(
    experiment: ExperimentFile = None,
    overrides: Overrides = None,
    algorithm: Annotated[str | None, typer.Option("--algorithm", "-a", help="See: partita list algorithms")] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="See: partita list models")] = None,
    data: Annotated[str | None, typer.Option("--data", "-d", help="See: partita list data")] = None,
    rounds: Annotated[int | None, typer.Option("--rounds", "-r", help="How many rounds.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", "-s", help="Decides everything random.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The run's folder; by default a new one in runs/.")
    ] = None,
    save: Annotated[bool, typer.Option(help="Keep the run, so that it can be resumed and shown.")] = True,
    seeds: Annotated[int, typer.Option(help="Repeat under so many seeds, on the same division of data.")] = 1,
    commit_every: Annotated[int, typer.Option(help="Rounds between commits.")] = 1,
    baselines: Annotated[bool, typer.Option(help="Make the baselines too, or use those that are there.")] = True,
    workers: Workers = None,
    track: Track = None,
    as_json: AsJson = False,
) -> None:
    """Run an experiment and show its result. The run is kept in a folder, and can be resumed if it is interrupted.

    Beside it come baselines on the same clients: local training, the global model, and that fine-tuned. They are runs
    of their own in the folder `baselines` beside the run, made once and used again by later runs.

    Examples:

    partita run --algorithm fedper --rounds 20

    partita run experiment.toml rounds=50 algorithm.optimizer.lr=0.05 --output runs/mine

    partita run algorithm=flayer algorithm.on=fedper data.split.clients=30 data.split.alpha=0.5 --no-save
    """
    from ..experiment.experiment import make, read

    file, changes = file_and_changes(experiment, overrides)
    options = {"algorithm": algorithm, "model": model, "data": data, "rounds": rounds, "seed": seed}
    settings = read(file, [*(f"{key}={value}" for key, value in options.items() if value is not None), *changes])
    use_workers(workers)
    manner = _Manner(as_json, track, commit_every, baselines)
    if seeds > 1:
        _replicate(settings, seeds, output, manner)
        return
    if not save:
        with _told(manner, settings) as on_round:
            result = make(settings).run(on_round)
        _show(result, {"settings": settings}, as_json)
        return
    from ..runs.run import new_folder

    folder = output or new_folder(Path("runs"), settings)
    result = _start(settings, folder, folder.parent, manner)
    _show(result, {"settings": settings, "run": str(folder)}, as_json, folder)
    if not as_json:
        terminal.tell(f"Kept in {folder}. Show it again with: partita show {folder}")


@dataclass(frozen=True)
class _Manner:
    """How runs are made, whatever they are."""

    as_json: bool
    track: list[str] | None = None
    commit_every: int = 1
    baselines: bool = True


def _start(settings: dict[str, Any], folder: Path, beside: Path, manner: _Manner) -> "Result":
    """A new run, with its baselines in a folder beside others, unless there are to be none."""
    from ..runs.run import BASELINES, start

    place = beside / BASELINES if manner.baselines else None
    with _resumable(folder), _told(manner, settings, folder) as on_round:
        result = start(settings, folder, interval=manner.commit_every, baselines=place, on_round=on_round)
    _complete(folder, manner)
    return result


def _go_on(folder: Path, manner: _Manner) -> "Result":
    """A run that is there already, with the baselines that it asks for."""
    from ..runs.run import resume

    with _resumable(folder), _told(manner, folder=folder) as on_round:
        result = resume(folder, on_round=on_round)
    _complete(folder, manner)
    return result


def _complete(folder: Path, manner: _Manner) -> None:
    """Baselines, guard and report of a run that is done."""
    from ..runs.completion import complete

    with _resumable(folder), terminal.show_progress(not manner.as_json) as on_round:
        complete(folder, on_round, terminal.tell_waiting)
    write_report([folder], folder / REPORT, tell=not manner.as_json)


def _replicate(settings: dict[str, Any], seeds: int, output: Path | None, manner: _Manner) -> None:
    """Runs that differ in the seed alone, each in a folder below; those that are done already are left as they are."""
    from ..runs.database import DATABASE
    from ..runs.run import new_folder, replica
    from ..runs.view import view

    folder = output or new_folder(Path("runs"), settings)
    for number in range(seeds):
        changed = replica(settings, number)
        place = folder / f"seed-{changed['seed']}"
        if (place / DATABASE).exists():
            _go_on(place, manner)
        else:
            _start(changed, place, folder.parent, manner)
    views = [view(path) for path in sorted(folder.glob("seed-*"))]
    if manner.as_json:
        print(json.dumps([each.as_dict() for each in views]))
    else:
        terminal.print_runs(views)


def resume(run: Folder, workers: Workers = None, track: Track = None, as_json: AsJson = False) -> None:
    """Continue an interrupted run where it was; the result is the same to the bit as without the interruption.

    Baselines that the run asks for and that are not done are continued too.

    Examples:

    partita resume runs/fedper-digits-1

    partita resume runs/fedper-digits-1 --track tensorboard
    """
    use_workers(workers)
    _show(_go_on(run, _Manner(as_json, track)), {"run": str(run)}, as_json, run)


def show(
    run: Folder,
    oracle: Annotated[bool, typer.Option("--oracle", help="Also the round that is best on test data.")] = False,
    target: Annotated[float | None, typer.Option(help="Also rounds, time and bytes to this mean test score.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show a run: what it is, how far it got, its scores, and each client's gain over the baselines.

    Examples:

    partita show runs/fedper-digits-1

    partita show runs/fedper-digits-1 --target 0.9
    """
    from ..runs.gains import gains_of
    from ..runs.target import reached
    from ..runs.view import view

    found = view(run)
    gains = gains_of(found)
    at = reached(found, target) if target is not None else None
    if as_json:
        more = {} if target is None else {"target": {"score": target, "reached": asdict(at) if at else None}}
        print(json.dumps({**found.as_dict(oracle=oracle), "gains": [asdict(gain) for gain in gains], **more}))
        return
    terminal.print_run(found, oracle=oracle)
    standings.print_gains(found, gains)
    if target is not None:
        terminal.print_target(found, target, at)


def list_runs(
    folder: Annotated[Path, typer.Argument(help="Where to look.")] = Path("runs"), as_json: AsJson = False
) -> None:
    """List the runs in a folder."""
    from ..runs.run import find_runs
    from ..runs.view import view

    views = [view(path) for path in find_runs(folder)]
    if as_json:
        print(json.dumps([{"folder": str(each.folder), "done": each.done, **each.about} for each in views]))
    elif views:
        terminal.print_runs(views)
    else:
        terminal.tell(f"No runs in {folder}. Make one with: partita run")


def export(
    run: Folder,
    folder: Annotated[Path | None, typer.Option("--csv", help="Where to write the CSV files.")] = None,
    manifest: Annotated[Path | None, typer.Option(help="Where to write who has which rows, as JSON.")] = None,
) -> None:
    """Write a run's metrics, traffic and rounds as CSV files, or the division of its data as a manifest.

    Examples:

    partita export runs/fedper-digits-1 --csv tables

    partita export runs/fedper-digits-1 --manifest division.json
    """
    from ..runs.export import export_csv, export_manifest
    from ..runs.view import view

    if folder is None and manifest is None:
        raise PartitaError("Nothing to write: give --csv FOLDER, or --manifest FILE.")
    written = export_csv(view(run), folder) if folder else []
    for path in [*written, *([export_manifest(run, manifest)] if manifest else [])]:
        terminal.tell(str(path))


class Form(str, Enum):
    """How a table is written."""

    terminal = "terminal"
    csv = "csv"
    markdown = "markdown"
    latex = "latex"


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs, or folders that hold runs.")],
    baseline: Annotated[str | None, typer.Option(help="The method to compare with; the first run's.")] = None,
    form: Annotated[Form, typer.Option(help="How to write the table.")] = Form.terminal,
) -> None:
    """Compare runs, paired over clients and seeds: differences with intervals, corrected tests, wins and losses.

    Examples:

    partita compare runs/fedavg-digits-1 runs/fedper-digits-1

    partita compare runs --baseline fedavg --form markdown
    """
    from ..evaluation.comparison import compare as compare_scores
    from ..report.tables import table
    from ..runs.run import runs_in
    from ..runs.scores import scores_of
    from ..runs.view import view

    views = [view(path) for path in runs_in(runs)]
    lower = views[0].metric.lower_is_better
    scores = scores_of(views)
    made = compare_scores(scores, baseline=baseline or next(iter(scores)), lower_is_better=lower)
    print(table(made, form.value, percent=not lower))


def _resumable(folder: Path) -> AbstractContextManager[None]:
    return interruptible(f"partita resume {folder}", partial(_report, folder))


@contextmanager
def _told(manner: _Manner, settings: dict[str, Any] | None = None, folder: Path | None = None) -> "Iterator[OnRound]":
    """Each round is shown, and told to trackers."""
    with terminal.show_progress(not manner.as_json) as shown:
        if not manner.track:
            yield shown
            return
        from ..trackers.tracking import tracking

        with tracking(manner.track, settings, folder) as tracked:

            def tell(stage: str, progress: "Progress") -> None:
                shown(stage, progress)
                tracked(stage, progress)

            yield tell


def _report(folder: Path) -> None:
    """Of what is committed, if anything is."""
    from ..runs.database import DATABASE

    if (folder / DATABASE).exists():
        write_report([folder], folder / REPORT)


def _show(result: "Result", origin: dict[str, Any], as_json: bool, folder: Path | None = None) -> None:
    from ..runs.gains import gains_of
    from ..runs.view import view

    kept = view(folder) if folder else None
    gains = gains_of(kept) if kept else []
    if as_json:
        print(json.dumps({**origin, **result.as_dict(), "gains": [asdict(gain) for gain in gains]}))
        return
    terminal.print_result(result)
    if kept:
        standings.print_gains(kept, gains)
