"""How is output shown on the terminal? As progress bars, tables and messages."""

import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TextIO

from rich import progress as bars
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table as Columns
from rich.text import Text

from ..errors import DegenerateWarning
from ..evaluation.metric import Metric
from ..formatting import MINUS, amount, visible

if TYPE_CHECKING:
    from ..api.installation import Finding
    from ..data.federation import Federation
    from ..evaluation.figures import Table
    from ..evaluation.partition import Partition
    from ..evaluation.scores import Summary
    from ..experiment.events import Event, OnEvent, RoundEnded
    from ..experiment.settings.options import Option

MOST_CLIENTS = 40
UNLIMITED = 10_000
"""The width of lines that go to a file or another program; they are never wrapped."""


class PlainConsole(Console):
    """Names, folders and errors may contain anything: nothing in them is read as markup or obeyed by the terminal."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else visible(text), style, control)


def _is_terminal(stream: TextIO | None) -> bool:
    """A stream that was closed before the program began is None."""
    return stream is not None and stream.isatty()


output = PlainConsole(width=None if _is_terminal(sys.stdout) else UNLIMITED)
messages = PlainConsole(stderr=True, soft_wrap=not _is_terminal(sys.stderr))


@contextmanager
def busy(doing: str, *, show: bool) -> Iterator[None]:
    """Show an activity while it lasts; nothing if the output is no terminal."""
    with messages.status(f"{doing} ...") if show and messages.is_terminal else nullcontext():
        yield


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
    elif messages.is_terminal:
        with bars.Progress(
            bars.TextColumn("{task.description}", markup=False),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeRemainingColumn(),
            bars.TextColumn("{task.fields[score]}", markup=False),
            console=messages,
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
            score = f"test {event.metric} {spread(event.score, event.metric)}" if event.score else None
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
            tell(note, "yellow", "Note")
            warnings.filterwarnings("ignore", re.escape(note), DegenerateWarning)
        clients, rounds = amount(event.clients, "client"), amount(event.rounds, "round")
        beside = f", and {event.baseline_rounds:,} of baselines" if event.baseline_rounds else ""
        tell(f"{event.label} on {event.data}: {clients}, {rounds}{beside}")
    elif isinstance(event, RoundEnded):
        _tell_left_out(event)
        if event.score:
            reached = spread(event.score, event.metric)
            at = event.now or f"{event.stage}: round {event.round}/{event.rounds}"
            tell(f"{at}, test {event.metric} {reached}")
    elif isinstance(event, Analysed):
        if event.done == event.total:
            tell(f"{event.analysis}: {event.total} clients")
    else:
        tell(
            f"Another process is using {event.folder}; waiting for it. Ctrl-C stops this process, and nothing is lost."
        )


def _tell_left_out(event: "RoundEnded") -> None:
    from ..experiment.left_out import NAMED_AFTER, newly_named

    if event.left_out:
        tell(f"{event.stage}: round {event.round}: {amount(len(event.left_out), 'client')} left out", "yellow", "Note")
    for each in newly_named(event.left_out):
        tell(f"{each.name} was left out of {NAMED_AFTER} rounds in a row. {each.problem}", "yellow", "Note")


def tell(text: str, style: str = "", kind: str = "") -> None:
    """Print a message to the standard error."""
    messages.print(Text.assemble((f"{kind}:", style), f" {text}") if kind else Text(text))


def say(*parts: str | tuple[str, str]) -> None:
    """Print a line of output; a part with a style is a pair."""
    output.print(Text.assemble(*parts))


def write(text: str, end: str = "\n") -> None:
    """Print text as it is laid out already, such as a table in Markdown."""
    print(visible(text), end=end)


def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Show a warning as a message, without the line of source that Python would name."""
    tell(str(message), "yellow", "Note" if issubclass(category, DegenerateWarning) else category.__name__)


def spread(summary: "Summary", metric: str = "accuracy") -> str:
    return Metric(metric).spread(summary.macro, summary.std)


def score(value: float, metric: str) -> str:
    return Metric(metric).text(value)


def change(gain: float, metric: str) -> str:
    """A gain with its sign, and a minus that every terminal can show."""
    return Metric(metric).change(gain).replace(MINUS, "-")


def columns(*titles: str) -> Columns:
    """Plain columns: the first to the left, numbers to the right."""
    made = Columns(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, title in enumerate(titles):
        made.add_column(title, justify="right" if number else "left", no_wrap=True)
    return made


def print_table(table: "Table") -> None:
    """Print a table of an analysis, with a minus that every terminal can show."""
    if table.title:
        say((table.title, "bold"))
    rows = columns(*table.columns)
    for row in table.rows:
        rows.add_row(*(cell.replace(MINUS, "-") for cell in row))
    output.print(rows)
    say(f"{table.note.replace(MINUS, '-')}\n" if table.note else "")


def print_names(found: dict[str, str], kind: str) -> None:
    width = max(map(len, found))
    for name, text in found.items():
        say((f"{name:{width}}", "bold"), f"  {text}")
    say(f"\nYour own: package.module:function, or an entry point of the group partita.{kind}.")


def print_facts(facts: dict[str, object]) -> None:
    for name, value in facts.items():
        if value is not None:
            say(f"{name}: {value}")


def print_findings(found: "Sequence[Finding]") -> None:
    """One line for each thing that was looked at, and what to do where there is something to do."""
    styles = {"ok": "green", "note": "yellow", "problem": "bold red"}
    width = max(len(each.subject) for each in found)
    for each in found:
        say((f"{each.state:<7}", styles[each.state]), f"  {each.subject:<{width}}  {each.text}")
        if each.advice:
            say(f"{'':<9}{'':<{width}}  -> {each.advice}")
    wrong = [each.subject for each in found if each.state == "problem"]
    say("\nThis would stop a run: " + ", ".join(wrong) if wrong else "\nEverything that a run needs is here.")


def print_division(federation: "Federation", summary: dict[str, Any]) -> None:
    """Counts and labels of each client, of at most the first 40."""
    from ..data.distribution import SHADES, label_counts, shaded

    samples = ", ".join(f"{count:,} for {role}" for role, count in summary["samples"].items())
    say((federation.name, "bold"), f", {len(federation)} clients: {samples}")
    for note in summary["notes"]:
        say(f"- {note}")
    labels = "labels" in summary and federation.classes <= 100
    marks = shaded(label_counts(federation)) if labels else [""] * len(federation)
    rows = columns("client", "train", "validation", "test", f"labels 0 to {federation.classes - 1}" if labels else "")
    rows.columns[-1].justify = "left"
    for client, (row, mark) in enumerate(zip(summary["by client"], marks, strict=True)):
        if client == MOST_CLIENTS:
            break
        new = " (new)" if client in federation.newcomers else ""
        counts = (f"{row[role]:,}" for role in ("train", "validation", "test"))
        rows.add_row(row["name"] + new, *counts, mark + "|" if labels else "")
    output.print(rows)
    if len(federation) > MOST_CLIENTS:
        say(f"... and {len(federation) - MOST_CLIENTS} more")
    if labels:
        say(f"Shades of a client's share: {SHADES.strip()} from few to all")
    if "floor" in summary:
        lowest = summary["floor"]
        say(
            f"Floor: answering the client's most common training label is right for {100 * lowest['micro']:.1f} % "
            f"of all test samples, {100 * lowest['macro']:.1f} % in the mean over clients."
        )
    if "hash" in summary:
        say(f"Manifest written; its hash is {summary['hash']}.")


def print_options(name: str, source: str, summary: str, options: "Sequence[Option]") -> None:
    say((name, "bold"), f": {summary}")
    say(f"Source: {source}")
    rows = columns("option", "type", "default", "meaning")
    for column in rows.columns:
        column.justify, column.no_wrap = "left", False
    for each in options:
        rows.add_row(each.name, each.type, each.default, each.meaning)
    output.print(rows)
    say("Set an option with algorithm.NAME=VALUE.\n")


def print_partition(partition: "Partition") -> None:
    say((partition.algorithm, "bold"))
    for title, stages in (("In a round", partition.stages), ("Before use", partition.finetune)):
        if stages:
            say(f"{title}:")
        for number, stage in enumerate(stages, 1):
            say(f"  {number}. {stage}")
    rows = columns("tensor", "shape", "parameters", "shared", "kept by client", "trained in")
    for row in partition.rows:
        rows.add_row(
            row.name,
            " x ".join(map(str, row.shape)) or "scalar",
            f"{row.parameters:,}",
            "yes" if row.shared else "-",
            "yes" if row.kept else "-",
            ", ".join(map(str, row.trained_in)) or "frozen",
        )
    output.print(rows)
    say(
        f"Network: {partition.parameters:,} parameters; shared {partition.shared:,}, "
        f"personal {partition.personal:,}, never trained in a round {partition.frozen:,}.\n"
        f"Each client and round: {partition.bytes_down:,} bytes down, at most {partition.bytes_up:,} bytes up."
    )
    if partition.sees_single_models:
        say("The server uses single clients' models: secure aggregation does not apply.")
