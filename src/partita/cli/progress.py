"""How does a command show a run while it is made? By its events, until its report."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..report import REPORT
from .events import show_events
from .options import interruptible
from .report import try_report

if TYPE_CHECKING:
    from ..experiment.events import OnEvent


@contextmanager
def shown(folder: Path, as_json: bool, again: str) -> "Iterator[OnEvent]":
    """Show events. Ctrl-C ends the command and prints how to continue."""
    with interruptible(again, partial(report_on, folder)), show_events(not as_json) as on_event:
        yield on_event


def report_on(folder: Path, *, tell: bool = True) -> None:
    """Write a report of the rounds that are committed, if there are any."""
    from ..runs.folders import find_runs

    if found := find_runs(folder):
        try_report([folder] if folder in found else found, folder / REPORT, tell=tell)
