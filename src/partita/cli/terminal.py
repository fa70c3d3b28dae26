"""How is output shown on the terminal? As progress bars, tables and messages."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table as Columns
from rich.text import Text

from ..errors import DegenerateWarning
from ..evaluation.metric import Metric
from ..formatting import MINUS, visible

if TYPE_CHECKING:
    from ..api.installation import Finding
    from ..data.federation import Federation
    from ..evaluation.figures import Table
    from ..evaluation.partition import Partition
    from ..evaluation.scores import Summary
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
