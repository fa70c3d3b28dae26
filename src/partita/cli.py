"""The command line. Torch is imported only by the commands that need it, so that help is quick."""

import json
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import terminal
from .errors import PartitaError

if TYPE_CHECKING:
    from .result import Result

app = typer.Typer(
    name="partita",
    help="Personalized federated learning: numbers you can believe, models you can use.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Kind(str, Enum):
    """What can be listed."""

    algorithms = "algorithms"
    models = "models"
    data = "data"
    splits = "splits"


Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Settings by dotted key, as in algorithm.optimizer.lr=0.05"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def main() -> None:
    """The entry point: errors in the user's words, without a traceback."""
    warnings.showwarning = terminal.show_warning
    try:
        app()
    except PartitaError as problem:
        terminal.tell(str(problem), "bold red", "Error")
        raise SystemExit(2) from None
    except BrokenPipeError:
        # Whoever read the output has gone, as in `partita list algorithms | head`.
        sys.stderr.close()
        raise SystemExit(1) from None


@app.command()
def run(
    experiment: Annotated[
        str | None, typer.Argument(metavar="[FILE.toml]", help="An experiment file; settings after it change it.")
    ] = None,
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
    as_json: AsJson = False,
) -> None:
    """Run an experiment and show its result. The run is kept in a folder, and can be resumed if it is interrupted.

    Examples:

    partita run --algorithm fedper --rounds 20

    partita run experiment.toml rounds=50 algorithm.optimizer.lr=0.05 --output runs/mine

    partita run algorithm=flayer algorithm.on=fedper data.split.clients=30 data.split.alpha=0.5 --no-save
    """
    from .experiment import make, read

    changes = list(overrides or [])
    file = None if experiment is None or "=" in experiment else Path(experiment)
    if experiment is not None and file is None:
        changes.insert(0, experiment)
    options = {"algorithm": algorithm, "model": model, "data": data, "rounds": rounds, "seed": seed}
    settings = read(file, [*(f"{key}={value}" for key, value in options.items() if value is not None), *changes])
    _use_one_thread()
    if seeds > 1:
        _replicate(settings, seeds, output, commit_every, as_json)
        return
    if not save:
        with terminal.show_progress(not as_json) as on_round:
            result = make(settings).run(on_round)
        _show(result, {"settings": settings}, as_json)
        return
    from .runs.run import new_folder, start

    folder = output or new_folder(Path("runs"), settings)
    with _resumable(folder), terminal.show_progress(not as_json) as on_round:
        result = start(settings, folder, interval=commit_every, on_round=on_round)
    _show(result, {"settings": settings, "run": str(folder)}, as_json)
    if not as_json:
        terminal.tell(f"Kept in {folder}. Show it again with: partita show {folder}")


def _replicate(settings: dict[str, Any], seeds: int, output: Path | None, commit_every: int, as_json: bool) -> None:
    """Runs that differ in the seed alone, each in a folder below; those that are done already are left as they are."""
    from .runs.run import new_folder, replica, resume, start
    from .runs.view import view

    folder = output or new_folder(Path("runs"), settings)
    for number in range(seeds):
        changed = replica(settings, number)
        place = folder / f"seed-{changed['seed']}"
        with _resumable(place), terminal.show_progress(not as_json) as on_round:
            if (place / "run.sqlite").exists():
                resume(place, on_round=on_round)
            else:
                start(changed, place, interval=commit_every, on_round=on_round)
    views = [view(path) for path in sorted(folder.glob("seed-*"))]
    if as_json:
        print(json.dumps([each.as_dict() for each in views]))
    else:
        terminal.print_runs(views)


Folder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")]


@app.command()
def resume(run: Folder, as_json: AsJson = False) -> None:
    """Continue an interrupted run where it was; the result is the same to the bit as without the interruption.

    Example: partita resume runs/fedper-digits-1
    """
    from .runs.run import resume as carry_on

    _use_one_thread()
    with _resumable(run), terminal.show_progress(not as_json) as on_round:
        result = carry_on(run, on_round=on_round)
    _show(result, {"run": str(run)}, as_json)


@app.command()
def show(run: Folder, as_json: AsJson = False) -> None:
    """Show a run: what it is, how far it got, and its scores.

    Example: partita show runs/fedper-digits-1
    """
    from .runs.view import view

    found = view(run)
    if as_json:
        print(json.dumps(found.as_dict()))
    else:
        terminal.print_run(found)


@app.command("runs")
def list_runs(
    folder: Annotated[Path, typer.Argument(help="Where to look.")] = Path("runs"), as_json: AsJson = False
) -> None:
    """List the runs in a folder."""
    from .runs.run import find_runs
    from .runs.view import view

    views = [view(path) for path in find_runs(folder)]
    if as_json:
        print(json.dumps([{"folder": str(each.folder), "done": each.done, **each.about} for each in views]))
    elif views:
        terminal.print_runs(views)
    else:
        terminal.tell(f"No runs in {folder}. Make one with: partita run")


@app.command()
def export(run: Folder, folder: Annotated[Path, typer.Option("--csv", help="Where to write the CSV files.")]) -> None:
    """Write a run's metrics, traffic and rounds as CSV files.

    Example: partita export runs/fedper-digits-1 --csv tables
    """
    from .runs.export import export_csv
    from .runs.view import view

    for path in export_csv(view(run), folder):
        terminal.tell(str(path))


class Form(str, Enum):
    """How a table is written."""

    terminal = "terminal"
    csv = "csv"
    markdown = "markdown"
    latex = "latex"


@app.command()
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
    from .comparison import compare as compare_scores, table
    from .runs.run import find_runs
    from .runs.scores import scores_of
    from .runs.view import view

    views = [view(path) for folder in runs for path in find_runs(folder)]
    if not views:
        raise PartitaError(f"No runs in {', '.join(map(str, runs))}.")
    metric = views[0].about["metric"]
    made = compare_scores(
        scores_of(views), baseline=baseline or views[0].about["label"], lower_is_better=metric != "accuracy"
    )
    print(table(made, form.value, percent=metric == "accuracy"))


@contextmanager
def _resumable(folder: Path) -> Iterator[None]:
    """Ctrl-C and SIGTERM drop the round in progress; what came before is kept, and can be continued."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        terminal.tell(f"Interrupted. Nothing that was done is lost; continue with: partita resume {folder}")
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGTERM, before)


def _show(result: "Result", origin: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print(json.dumps({**origin, **result.as_dict()}))
    else:
        terminal.print_result(result)


@app.command("list")
def list_(kind: Annotated[Kind, typer.Argument(help="What to list.")], as_json: AsJson = False) -> None:
    """List what is known by name: algorithms, models or data.

    Example: partita list algorithms
    """
    from . import registry

    found = {name: registry.described(kind.value, name) for name in registry.names(kind.value)}
    if as_json:
        print(json.dumps(found))
    else:
        terminal.print_names(found, kind.value)


@app.command()
def describe(
    algorithm: Annotated[str, typer.Argument(help="Name of an algorithm.")],
    overrides: Overrides = None,
    model: Annotated[str, typer.Option("--model", "-m", help="See: partita list models")] = "cnn4",
    shape: Annotated[str, typer.Option(help="Shape of one input.")] = "3,32,32",
    classes: Annotated[int, typer.Option(help="Number of classes.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Show which tensors an algorithm shares, keeps, trains and freezes, in what phases, and the bytes of a round.

    Examples:

    partita describe fedper --model cnn4

    partita describe fedbabu algorithm.blocks=1 --model mlp --shape 1,8,8
    """
    from .algorithm import Algorithm
    from .describe import describe as resolve
    from .experiment import read
    from .settings import convert
    from .task import Task
    from .tasks import Factory

    try:
        sides = tuple(int(side) for side in shape.split(","))
    except ValueError:
        raise PartitaError(f"The shape {shape!r} is not a list of whole numbers such as 3,32,32.") from None
    settings = read(None, [f"algorithm={algorithm}", f"model={model}", *(overrides or [])])
    if strange := settings.keys() - {"algorithm", "model", "data"}:
        key = min(strange)
        raise PartitaError(
            f"Unknown setting {key!r}. Settings begin with algorithm or model, as in algorithm.{key}=..."
        )
    network = convert(Factory, settings["model"], "model")(shape=sides, classes=classes)
    description = resolve(convert(Algorithm, settings["algorithm"], "algorithm"), Task(network))
    if as_json:
        print(json.dumps(description.as_dict()))
    else:
        terminal.print_description(description)


@app.command()
def demo(
    rounds: Annotated[int, typer.Option("--rounds", "-r", help="Rounds of each method.")] = 30,
    seed: Annotated[int, typer.Option("--seed", "-s", help="Decides the split, the weights and the batches.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Compare seven methods on handwritten digits, divided unevenly among 20 clients. Takes under a minute."""
    from .demonstration import METHODS, run_method

    _use_one_thread()
    results = {}
    with terminal.show_progress(not as_json) as on_round:
        for name in METHODS:
            results[name] = run_method(name, rounds=rounds, seed=seed, on_round=partial(on_round, name))
    if as_json:
        print(json.dumps({name: result.as_dict() for name, result in results.items()}))
    else:
        terminal.print_comparison(results)


data_app = typer.Typer(help="Look at data and how they are divided among clients.", no_args_is_help=True)
app.add_typer(data_app, name="data")
DataName = Annotated[str, typer.Argument(help="Name of a data source.")]


@data_app.command("list")
def data_list(as_json: AsJson = False) -> None:
    """List the data sources."""
    list_(Kind.data, as_json)


@data_app.command("show")
def data_show(name: DataName, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Show what a source holds before it is divided.

    Examples:

    partita data show digits

    partita data show npz path=mine.npz
    """
    from .distribution import facts_of
    from .settings import undivided

    pool, _ = undivided(_data_settings(name, overrides), "data")
    facts = facts_of(pool)
    if as_json:
        print(json.dumps(facts))
    else:
        terminal.print_facts(facts)


@data_app.command("split")
def data_split(
    name: DataName,
    overrides: Overrides = None,
    manifest: Annotated[Path | None, typer.Option(help="Write the division to this file.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw the labels of each client into this SVG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Divide data and show each client's counts and labels, and the accuracy of always answering its commonest label.

    Examples:

    partita data split digits split=dirichlet split.alpha=0.5 split.clients=10

    partita data split digits --manifest digits.json --picture digits.svg
    """
    from . import distribution, manifests
    from .federation import federate
    from .settings import undivided

    pool, division = undivided(_data_settings(name, overrides), "data")
    federation = federate(pool, **division)
    summary = distribution.summary_of(federation)
    if manifest:
        summary["hash"] = manifests.write(pool, federation, manifest)
    if picture:
        picture.write_text(distribution.picture(federation), encoding="utf-8")
    if as_json:
        print(json.dumps(summary, default=str))
    else:
        terminal.print_division(federation, summary)


def _data_settings(name: str, overrides: list[str] | None) -> object:
    """Settings of data, where a key needs no `data.` before it."""
    from .experiment import read

    return read(None, [f"data={name}", *(f"data.{override}" for override in overrides or [])])["data"]


def _use_one_thread() -> None:
    import torch

    # Small networks are slower with more threads.
    torch.set_num_threads(1)
