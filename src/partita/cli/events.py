"""How are the events of a run shown? As bars on a terminal, as plain lines elsewhere."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich import progress as bars

from ..errors import DegenerateWarning
from ..formatting import amount
from . import terminal

if TYPE_CHECKING:
    from ..experiment.events import Event, OnEvent, RoundEnded


@contextmanager
def show_events(show: bool) -> "Iterator[OnEvent]":
    """Bars on a terminal, plain lines elsewhere."""
    # Notes of a plan are not repeated as warnings.
    with warnings.catch_warnings(), _shown_events(show) as on_event:
        yield on_event


@contextmanager
def _shown_events(show: bool) -> "Iterator[OnEvent]":
    if not show:
        yield lambda event: None
    elif terminal.messages.is_terminal:
        with bars.Progress(
            bars.TextColumn("{task.description}", markup=False),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeRemainingColumn(),
            bars.TextColumn("{task.fields[score]}", markup=False),
            console=terminal.messages,
        ) as shown:
            # Until the first event: checks, baselines that are there, and the start of workers.
            shown.add_task("starting", total=None, score="")
            yield _Bars(shown)
    else:
        yield _tell_event


class _Bars:
    """One bar for each stage and analysis."""

    def __init__(self, shown: bars.Progress) -> None:
        self._shown = shown
        self._known: dict[str, bars.TaskID] = {"starting": bars.TaskID(0)}
        self._done = self._ahead = 0

    def _show_all(self) -> None:
        """One bar for all rounds, so that the time that is left covers the baselines too."""
        self._advance("all rounds", self._done, max(self._ahead, self._done), None)

    def __call__(self, event: "Event") -> None:
        from ..experiment.events import Analysed, Planned, RoundEnded

        if isinstance(event, Planned):
            _tell_event(event)
            self._ahead = self._done + event.rounds + event.baseline_rounds
            self._show_all()
        elif isinstance(event, RoundEnded):
            score = f"test {event.metric} {terminal.spread(event.score, event.metric)}" if event.score else None
            _tell_left_out(event)
            self._advance(event.stage, event.round, event.rounds, score, event.now)
            self._done += 1
            self._show_all()
        elif isinstance(event, Analysed):
            self._advance(event.analysis, event.done, event.total, None)
        else:
            _tell_event(event)

    def _advance(self, name: str, done: int, total: int, score: str | None, now: str = "") -> None:
        if name != "all rounds" and "starting" in self._known:
            self._shown.remove_task(self._known.pop("starting"))
        if name not in self._known:
            self._known[name] = self._shown.add_task(name, total=total, score="")
        self._shown.update(self._known[name], completed=done, total=total, description=now or name)
        if score is not None:
            self._shown.update(self._known[name], score=score)


def _tell_event(event: "Event") -> None:
    from ..experiment.events import Analysed, Planned, RoundEnded

    if isinstance(event, Planned):
        for note in event.notes:
            terminal.tell(note, "yellow", "Note")
            warnings.filterwarnings("ignore", re.escape(note), DegenerateWarning)
        clients, rounds = amount(event.clients, "client"), amount(event.rounds, "round")
        beside = f", and {event.baseline_rounds:,} of baselines" if event.baseline_rounds else ""
        terminal.tell(f"{event.label} on {event.data}: {clients}, {rounds}{beside}")
    elif isinstance(event, RoundEnded):
        _tell_left_out(event)
        if event.score:
            reached = terminal.spread(event.score, event.metric)
            at = event.now or f"{event.stage}: round {event.round}/{event.rounds}"
            terminal.tell(f"{at}, test {event.metric} {reached}")
    elif isinstance(event, Analysed):
        if event.done == event.total:
            terminal.tell(f"{event.analysis}: {event.total} clients")
    else:
        terminal.tell(
            f"Another process is using {event.folder}; waiting for it. Ctrl-C stops this process, and nothing is lost."
        )


def _tell_left_out(event: "RoundEnded") -> None:
    from ..experiment.left_out import NAMED_AFTER, newly_named

    if event.left_out:
        terminal.tell(
            f"{event.stage}: round {event.round}: {amount(len(event.left_out), 'client')} left out", "yellow", "Note"
        )
    for each in newly_named(event.left_out):
        terminal.tell(f"{each.name} was left out of {NAMED_AFTER} rounds in a row. {each.problem}", "yellow", "Note")
