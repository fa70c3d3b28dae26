"""The command that writes reports, and how other commands write theirs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ..errors import PartitaError
from ..report import REPORT
from . import terminal
from .groups import name_skipped


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs, or folders that hold runs.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="The file; by default report.html in the folder that was given."
        ),
    ] = None,
) -> None:
    """Write one HTML file about runs: results, baselines, curves, clients, cost and provenance.

    The file needs no other files and no network. An unfinished run gets a report of its rounds so far.

    Examples:

    partita report runs/fedper-digits-1

    partita report runs/fedavg runs/fedper --output comparison.html
    """
    from ..report.report import write_study
    from ..report.study import study
    from ..runs.folders import runs_in

    found = runs_in(runs)
    one = runs[0] if len(runs) == 1 and runs[0] != Path(".") else None
    place = output or (found[0] if len(found) == 1 else one or Path()) / REPORT
    shown = study(found)
    terminal.tell(f"Report: {write_study(shown, place)}")
    name_skipped(shown.skipped)


def try_report(folders: Sequence[Path], path: Path, *, tell: bool = True) -> None:
    """Write a report and print where it is. A failure is a message, because the runs themselves are kept."""
    from ..report.report import write_report

    try:
        written = write_report(folders, path)
    except (PartitaError, OSError) as problem:
        terminal.tell(f"The runs are kept, but their report could not be written: {problem}", "yellow", "Note")
        return
    if tell:
        terminal.tell(f"Report: {written}")
