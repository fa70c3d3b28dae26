"""The command that writes reports."""

from pathlib import Path
from typing import Annotated

import typer

from . import terminal
from .reporting import REPORT


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs, or folders that hold runs.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="The file; by default report.html, of one run in its folder."),
    ] = None,
) -> None:
    """Write one HTML file about runs: results, baselines, curves, clients, cost and where they come from.

    The file needs no network and nothing beside it. A run that is not finished gives a report of what there is.

    Examples:

    partita report runs/fedper-digits-1

    partita report runs/fedavg runs/fedper --output comparison.html
    """
    from ..report.report import write_report
    from ..runs.folders import runs_in

    found = runs_in(runs)
    place = output or (found[0] / REPORT if len(found) == 1 else Path(REPORT))
    terminal.tell(f"Report: {write_report(found, place)}")
