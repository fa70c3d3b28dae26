"""The command that chooses between personal and global models."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from . import terminal
from .events import show_events
from .groups import for_each_run, holds_several, name_skipped
from .options import AsJson, Folder, Trust, use_one_thread


def guard(
    run: Folder,
    global_run: Annotated[
        Path | None,
        typer.Option(
            "--global", metavar="RUN", help="A run with a global model; by default this run itself or its baseline."
        ),
    ] = None,
    prior: Annotated[
        float | None,
        typer.Option(
            help="With this many validation samples, a client's own loss counts as much as that of all; by default 4."
        ),
    ] = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Choose each client's personal model, the global one or a mixture on validation data, and show test scores.

    `partita run` does this too when it makes baselines. For a folder that holds several runs, the command shows each
    method's means over its seeds with an interval, and names the runs that it skips.

    Examples:

    partita guard runs/fedper-digits-1

    partita guard runs/five-seeds

    partita guard runs/fedper-digits-1 --global runs/fedavg-digits-1 --prior 10
    """
    from ..evaluation.analyses.guard import (
        OVER_SEEDS,
        OVER_SEEDS_NOTE,
        guard as guard_analysis,
        over_seeds,
        over_seeds_cells,
    )
    from ..evaluation.figures import Table
    from ..evaluation.guard import PRIOR
    from ..runs.evaluate import analyse
    from ..runs.session import Session
    from ..runs.stored import read_run

    use_one_thread()
    analysis = guard_analysis(global_run=global_run, prior=PRIOR if prior is None else prior)

    def guarded(folder: Path) -> dict[str, Any]:
        with (
            show_events(not as_json) as on_event,
            Session.open(folder, trust=trust, on_event=on_event) as session,
        ):
            return dict(analyse(session, analysis))

    if holds_several(run):
        made = for_each_run(run, guarded)
        if as_json:
            print(json.dumps(made.as_dict(over_seeds)))
            return
        rows = [[name, *over_seeds_cells(made.of(name), runs[0].metric)] for name, runs in made.groups.items()]
        terminal.print_table(Table(["method", *OVER_SEEDS], rows, note=OVER_SEEDS_NOTE))
        name_skipped(made.skipped)
        return
    found = guarded(run)
    if as_json:
        print(json.dumps(found))
        return
    for table in analysis.tables(found, read_run(run).metric):
        terminal.print_table(table)
