"""The command that chooses between personal and global models."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from . import terminal
from .groups import for_each_run, holds_several
from .options import AsJson, Folder, Trust, use_one_thread


def guard(
    run: Folder,
    global_run: Annotated[
        Path | None,
        typer.Option("--global", help="A run with a global model; by default this run itself or its baseline."),
    ] = None,
    prior: Annotated[
        float | None,
        typer.Option(help="With this many validation samples, a client's own loss counts as much as that of all."),
    ] = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Choose each client's personal model, the global one or a mixture on validation data, and show test scores.

    `partita run` does this too when it makes baselines.

    Examples:

    partita guard runs/fedper-digits-1

    partita guard runs/five-seeds

    partita guard runs/fedper-digits-1 --global runs/fedavg-digits-1 --prior 10
    """
    from ..evaluation.analyses.guard import guard as guard_analysis, hurt_said
    from ..evaluation.guard import PRIOR
    from ..runs.evaluate import analyse
    from ..runs.session import Session

    use_one_thread()
    analysis = guard_analysis(global_run=global_run, prior=PRIOR if prior is None else prior)

    def guarded(folder: Path) -> dict[str, Any]:
        with (
            terminal.show_events(not as_json) as on_event,
            Session.open(folder, trust=trust, on_event=on_event) as session,
        ):
            found = analyse(session, analysis)
            metric = session.record.score
        if not as_json:
            for table in analysis.tables(found, metric):
                terminal.print_table(table)
        return dict(found)

    if holds_several(run):
        results = for_each_run(run, lambda each: guarded(each.folder), as_json)
        if not as_json and len(results) > 1:
            before, after = (hurt_said(*results, when=when) for when in ("before", "after"))
            terminal.say(f"All {len(results)} runs together: hurt {before} without the guard, {after} with it.")
        return
    found = guarded(run)
    if as_json:
        print(json.dumps(found))
