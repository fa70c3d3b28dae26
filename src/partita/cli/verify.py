"""The command that checks runs for damage."""

import json
from pathlib import Path
from typing import Annotated

import typer

from . import terminal
from .options import AsJson


def verify(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs, or folders that hold runs.")],
    as_json: AsJson = False,
) -> None:
    """Check runs for damage: the structure of their databases, and the checksum of every stored value.

    Nothing is changed. The exit code is 1 if a run is damaged.

    Examples:

    partita verify runs/fedper-digits-1

    partita verify runs
    """
    from ..errors import PartitaError
    from ..runs.folders import runs_in
    from ..runs.store import Store
    from ..runs.verify import verify as look

    damage: dict[str, str | None] = {}
    for folder in runs_in(runs):
        damage[str(folder)] = None
        try:
            with Store.open(folder) as store:
                look(store)
        except PartitaError as problem:
            damage[str(folder)] = str(problem)
    if as_json:
        print(json.dumps(damage))
    else:
        for run, found in damage.items():
            terminal.output.print(found or f"{run}: no damage found.", soft_wrap=True)
    if any(damage.values()):
        raise typer.Exit(1)
