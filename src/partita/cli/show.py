"""Commands that show and compare runs."""

import json
import sys
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import PartitaError
from . import terminal
from .groups import holds_several, show_several
from .options import AsJson, Folder
from .results import print_gains, print_run, print_runs, print_target

if TYPE_CHECKING:
    from ..runs.gains import NamedBaselines
    from ..runs.stored import StoredRun


def show(
    run: Folder,
    oracle: Annotated[bool, typer.Option("--oracle", help="Also show the round that is best on test data.")] = False,
    target: Annotated[
        float | None,
        typer.Option(
            metavar="SCORE", help="Also show the rounds, time and bytes until this test score, as in --target 0.9"
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a run: its experiment, progress and scores, and the gains of clients over the baselines.

    For a folder of several runs, it shows each method with means and intervals over its seeds, and names the runs
    that it skips.

    Examples:

    partita show runs/fedper-digits-1

    partita show runs/five-seeds

    partita show runs/fedper-digits-1 --target 0.9
    """
    from ..runs.as_json import write_json
    from ..runs.gains import gain_as_dict, gains_of, named_baselines
    from ..runs.stored import read_run
    from ..runs.target import reached

    if holds_several(run):
        if oracle or target is not None:
            raise PartitaError(f"{run} holds several runs, but --oracle and --target need one run.")
        show_several(run, as_json)
        return
    found = read_run(run)
    beside = named_baselines(found, {})
    gains = gains_of(found, beside)
    at = reached(found, target) if target is not None else None
    if as_json:
        more = {} if target is None else {"target": {"score": target, "reached": asdict(at) if at else None}}
        against = [gain_as_dict(gain, found.record) for gain in gains]
        write_json(found, sys.stdout, {"gains": against, **more}, oracle=oracle)
        print()
        return
    print_run(found, oracle=oracle)
    print_gains(found, gains, beside)
    if target is not None:
        print_target(found, target, at)


def list_runs(
    folder: Annotated[Path, typer.Argument(metavar="[FOLDER]", help="The folder that holds the runs.")] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """List the runs in a folder, with their progress and scores.

    Examples:

    partita runs

    partita runs runs/study --json
    """
    from ..runs.folders import find_runs
    from ..runs.stored import read_run

    damaged = False
    runs: list[StoredRun] = []
    for path in find_runs(folder):
        try:
            runs.append(read_run(path))
        except PartitaError as problem:
            # One damaged run does not hide the others.
            damaged = True
            terminal.tell(str(problem), "bold red", "Error")
    if as_json:
        print(json.dumps([{"folder": str(each.folder), "done": each.done, **each.record.as_dict()} for each in runs]))
    elif runs:
        print_runs(runs)
    elif not damaged:
        terminal.tell(f"No runs in {folder}. Make one with: partita run")
    if damaged:
        raise typer.Exit(1)


class Form(str, Enum):
    """How a table is written."""

    terminal = "terminal"
    csv = "csv"
    markdown = "markdown"
    latex = "latex"


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs, or folders that hold runs.")],
    baseline: Annotated[
        str | None, typer.Option(metavar="METHOD", help="The method to compare with; by default the first.")
    ] = None,
    form: Annotated[Form, typer.Option(help="How to write the table.")] = Form.terminal,
) -> None:
    """Compare runs, paired over clients and seeds: differences with intervals, corrected tests, wins and losses.

    Examples:

    partita compare runs/fedavg-digits-1 runs/fedper-digits-1

    partita compare runs --baseline fedavg --form markdown
    """
    from ..api.seeds import compare as compare_runs
    from ..report.tables import comparison_text

    made = compare_runs(*runs, baseline=baseline)
    terminal.write(comparison_text(made, form.value, percent=not made.lower_is_better))


def print_kept(kept: "StoredRun", beside: "NamedBaselines", as_json: bool) -> None:
    """Print a run that was just made or resumed, and its gains over the baselines."""
    from ..runs.as_json import write_json
    from ..runs.gains import gain_as_dict, gains_of

    gains = gains_of(kept, beside)
    if as_json:
        write_json(kept, sys.stdout, {"gains": [gain_as_dict(gain, kept.record) for gain in gains]})
        print()
        return
    # Its notes were printed when it began.
    print_run(kept, notes=False)
    print_gains(kept, gains, beside)
