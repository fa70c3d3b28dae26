"""The command that guards a run."""

import json
from pathlib import Path
from typing import Annotated

import typer

from . import standings, terminal
from .options import AsJson, Folder, Trust, use_one_thread


def guard(
    run: Folder,
    global_run: Annotated[
        Path | None,
        typer.Option("--global", help="A run of a whole network; by default its own or its baseline."),
    ] = None,
    prior: Annotated[
        float | None, typer.Option(help="So many of a client's validation samples weigh as much as those of all.")
    ] = None,
    trust: Trust = False,
    as_json: AsJson = False,
) -> None:
    """Choose for every client its personal model, the global one or a mixture, by validation data; tell test scores.

    `partita run` does this of itself where it makes baselines.

    Examples:

    partita guard runs/fedper-digits-1

    partita guard runs/fedper-digits-1 --global runs/fedavg-digits-1 --prior 10
    """
    from ..evaluation.guard import PRIOR
    from ..runs.guard import add_guard
    from ..runs.session import Session

    use_one_thread()
    with (
        terminal.show_events(not as_json) as on_event,
        Session.open(run, trust=trust, on_event=on_event) as session,
    ):
        found = add_guard(session, global_run=global_run, prior=PRIOR if prior is None else prior)
        metric = session.record.metric
    if as_json:
        print(json.dumps(found))
    else:
        standings.print_guard(found, metric)
