"""The command that runs a grid of settings and chooses among them on validation data."""

import json
import shlex
from pathlib import Path
from typing import Annotated

import typer

from . import terminal
from .events import show_events
from .options import (
    AsJson,
    ExperimentFile,
    On,
    Overrides,
    Trust,
    Workers,
    executor_text,
    file_and_changes,
    interruptible,
)
from .show import Form


def sweep(
    experiment: ExperimentFile = None,
    overrides: Overrides = None,
    over: Annotated[
        list[str] | None,
        typer.Option(
            "--over",
            metavar="KEY=VALUE,VALUE",
            help="A setting and the values to try. Give it several times for a grid of several settings.",
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="The folder of all runs of the sweep.")
    ] = Path("runs/sweep"),
    seeds: Annotated[int, typer.Option(help="Repeat every point with this many seeds.", min=1)] = 1,
    form: Annotated[Form, typer.Option(help="How to write the table.")] = Form.terminal,
    on: On = None,
    workers: Workers = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Run a grid of settings, choose the best on validation data, and show one table.

    Every point runs under every seed, on the same division of the data, without baselines. Test data take no part in
    the choice: the table has the test score of the chosen point alone. Repeat the command after an interruption, or
    with more values or seeds, and finished runs are reused.

    Examples:

    partita sweep --over algorithm.optimizer.lr=0.03,0.1,0.3 rounds=20

    partita sweep experiment.toml --over algorithm.epochs=1,5 --over algorithm.optimizer.lr=0.01,0.1 --seeds 3

    partita sweep --over algorithm=fedavg,fedper,fedalt --form latex
    """
    from ..api.sweep import points_of, read_grid, sweep as run_sweep
    from ..report.tables import table_text

    file, changes = file_and_changes(experiment, overrides)
    given = [*([str(file)] if file else []), *changes]
    with terminal.busy("Checking every point", show=not as_json):
        points = points_of(read_grid(over or []), output, file=file, overrides=changes, trust=trust)
    again = shlex.join(["partita", "sweep", *given, *(f"--over={each}" for each in over or []), f"--seeds={seeds}"])
    with interruptible(f"{again} --output {output}"), show_events(not as_json) as on_event:
        made = run_sweep(points, seeds=seeds, on=executor_text(on, workers), on_event=on_event)
    if as_json:
        print(json.dumps(made.as_dict()))
        return
    if form is Form.terminal:
        terminal.print_table(made.table())
    else:
        terminal.write(table_text(made.table(), form.value), end="")
    best = made.chosen.point
    terminal.tell(f"The chosen runs: {best.folder}")
    chosen = shlex.join(["partita", "run", *given, *best.overrides, *(["--seeds", str(seeds)] if seeds > 1 else [])])
    terminal.tell(f"The same with baselines and a report: {chosen}")
