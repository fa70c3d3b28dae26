"""Commands that start and resume runs."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from ..deploy import DEPLOYMENT
from ..errors import PartitaError
from ..report import REPORT
from . import terminal
from .events import show_events
from .federate import run_deployment
from .options import (
    AsJson,
    ExperimentFile,
    On,
    OneFolder,
    Overrides,
    Trust,
    Workers,
    executor_text,
    file_and_changes,
    loading,
    naming,
)
from .progress import report_on, shown
from .results import print_runs
from .show import print_kept

if TYPE_CHECKING:
    from ..experiment.events import Event
    from ..experiment.experiment import Experiment


class BaselineChoice(str, Enum):
    """How baselines are made."""

    tuned = "tuned"
    quick = "quick"
    none = "none"


Track = Annotated[
    list[str] | None,
    typer.Option(
        "--track",
        metavar="TRACKER",
        help="Log each round to tensorboard[:FOLDER], mlflow[:ADDRESS] or wandb[:PROJECT]. May be given several times.",
    ),
]


def run(
    experiment: ExperimentFile = None,
    overrides: Overrides = None,
    algorithm: Annotated[
        str | None, naming("algorithms", "--algorithm", "-a", what="The method; by default the file's, or fedper.")
    ] = None,
    model: Annotated[
        str | None, naming("models", "--model", "-m", what="The network; by default the file's, or mlp.")
    ] = None,
    data: Annotated[
        str | None, naming("data", "--data", "-d", what="The data; by default the file's, or digits.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", "-r", help="The number of rounds; by default the file's, or 20.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", "-s", help="The seed of all random numbers; by default the file's, or 0.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FOLDER", help="The run's folder; by default a new one in runs/."),
    ] = None,
    save: Annotated[bool, typer.Option(help="Keep the run, so that it can be resumed and shown.")] = True,
    seeds: Annotated[int, typer.Option(help="Repeat with this many seeds, on the same division of data.")] = 1,
    commit_every: Annotated[int, typer.Option(help="The number of rounds between commits.")] = 1,
    baselines: Annotated[
        BaselineChoice,
        typer.Option(help="Baselines beside the run: tuned on validation data, at one default rate (quick), or none."),
    ] = BaselineChoice.tuned,
    no_baselines: Annotated[bool, typer.Option("--no-baselines", help="The same as --baselines none.")] = False,
    on: On = None,
    workers: Workers = None,
    track: Track = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Run an experiment and show its result. The run is kept in a folder, and can be resumed if it is interrupted.

    Baselines on the same clients are made too: local training, the global model and the fine-tuned global model. Their
    learning rates are chosen on validation data, which takes several times as long as the run itself; --baselines quick
    uses one rate. They are separate runs in the folder `baselines` beside the run, made once and reused by later runs
    with the same data, network, rounds, local epochs and seed.

    Examples:

    partita run --algorithm fedper --rounds 20

    partita run experiment.toml rounds=50 algorithm.optimizer.lr=0.05 --output runs/mine

    partita run algorithm=flayer algorithm.on=fedper data.split.clients=30 data.split.alpha=0.5 --no-save
    """
    if not save and seeds != 1:
        raise PartitaError(
            f"--no-save keeps nothing, and --seeds {seeds} compares runs that are kept. Omit one of them."
        )
    file, changes = file_and_changes(experiment, overrides)
    options = {"algorithm": algorithm, "model": model, "data": data, "rounds": rounds, "seed": seed}
    given = [*(f"{key}={value}" for key, value in options.items() if value is not None), *changes]
    executor, trackers = executor_text(on, workers), track or []
    with terminal.busy("Reading the data and building the network", show=not as_json), loading():
        from ..api.run import Baselines, keep, keep_seeds
        from ..experiment.settings.files import make, read
        from ..runs.as_json import write_json_list
        from ..runs.folders import BESIDE, need_new

        made = make(read(file, given, trust=trust))
    beside: Baselines = "quick" if baselines is BaselineChoice.quick else baselines is BaselineChoice.tuned
    beside = False if no_baselines else beside
    if not save:
        _run_unkept(made, trackers, executor, as_json)
        return
    if seeds != 1:
        with _folder(output, made) as folder:
            with shown(folder, as_json, f"partita run ... --seeds {seeds} --output {folder}") as on_event:
                runs = keep_seeds(
                    made,
                    folder,
                    seeds,
                    baselines=beside,
                    commit_every=commit_every,
                    track=trackers,
                    on=executor,
                    on_event=on_event,
                )
            report_on(folder, tell=not as_json)
        if as_json:
            write_json_list((each.stored for each in runs), sys.stdout)
            print()
        else:
            print_runs([each.stored for each in runs])
        return
    if output:
        need_new(output)
    with _folder(output, made) as folder:
        with shown(folder, as_json, f"partita resume {folder}") as on_event:
            kept = keep(
                made,
                folder,
                baselines=BESIDE if beside else None,
                baseline_tuning=beside != "quick",
                commit_every=commit_every,
                track=trackers,
                on=executor,
                on_event=on_event,
            )
        report_on(folder, tell=not as_json)
    print_kept(kept.stored, kept.baselines, as_json)
    if not as_json:
        terminal.tell(f"Kept in {folder}. Show it again with: partita show {folder}")


def resume(
    run: OneFolder,
    on: On = None,
    workers: Workers = None,
    track: Track = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Continue an interrupted run. The result has the same bits as without the interruption.

    Its unfinished baselines are continued too. A run of a federation is continued with its sites.

    Examples:

    partita resume runs/fedper-digits-1

    partita resume runs/fedper-digits-1 --track tensorboard
    """
    from ..runs.completeness import is_complete
    from ..runs.database import DATABASE
    from ..runs.gains import named_baselines
    from ..runs.stored import read_run

    federation = (run / DEPLOYMENT).exists()
    # A federation may have been interrupted before its sites introduced themselves.
    if (run / DATABASE).exists() or not federation:
        found = read_run(run)
        beside = named_baselines(found, {})
        if is_complete(found, beside) and not track and (federation or (run / REPORT).exists()):
            # Nothing is to be trained, and so neither torch nor data are loaded, and no site is asked.
            if not (run / REPORT).exists():
                report_on(run, tell=not as_json)
            print_kept(found, beside, as_json)
            return

    if federation:
        from ..deploy.deployment import Deployment

        run_deployment(Deployment.read(run), run, as_json)
        return

    with loading():
        from ..api.finish import finish
        from ..api.kept import Run
        from ..runs.session import Session

    with (
        shown(run, as_json, f"partita resume {run}") as on_event,
        Session.open(run, trust=trust, on=executor_text(on, workers), on_event=on_event) as session,
    ):
        finish(session, track or [])
        kept = Run.of(session)
    report_on(run, tell=not as_json)
    print_kept(kept.stored, kept.baselines, as_json)


def _run_unkept(experiment: "Experiment", track: list[str], on: str | None, as_json: bool) -> None:
    """Run in a temporary folder, so that the result is read and shown in the same way as a kept one."""
    from ..api.kept import Run
    from ..runs.session import Session
    from ..runs.trackers.tracking import tracking

    with (
        TemporaryDirectory() as place,
        show_events(not as_json) as on_event,
        tracking(track, experiment) as tracked,
        Session.start(experiment, Path(place) / "run", on=on) as session,
    ):

        def tell(event: "Event") -> None:
            on_event(event)
            tracked(event)

        session.run(tell)
        kept = Run.of(session)
        print_kept(kept.stored, kept.baselines, as_json)


@contextmanager
def _folder(output: Path | None, experiment: "Experiment") -> Iterator[Path]:
    """The given folder, or a new one, which is removed again if it stays empty."""
    from ..runs.folders import new_folder

    folder = output or new_folder(Path("runs"), experiment)
    try:
        yield folder
    except BaseException:
        if not output:
            with suppress(OSError):
                # Only if it is empty.
                folder.rmdir()
        raise
