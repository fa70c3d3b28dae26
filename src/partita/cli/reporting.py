"""How do commands write reports? One file for some runs; what goes wrong with it does no harm to the runs."""

from collections.abc import Sequence
from pathlib import Path

from ..errors import PartitaError
from . import terminal

REPORT = "report.html"


def write_report(folders: Sequence[Path], path: Path, *, tell: bool = True) -> Path | None:
    """Write a report and say where; None where that was not possible."""
    from ..report import report

    try:
        written = report.write_report(folders, path)
    except (PartitaError, OSError) as problem:
        terminal.tell(f"The runs are kept, but their report could not be written: {problem}", "yellow", "Note")
        return None
    if tell:
        terminal.tell(f"Report: {written}")
    return written
