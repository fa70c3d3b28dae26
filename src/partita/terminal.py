"""What does a person see? Progress, tables and messages on the terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich import progress as bars
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .errors import DegenerateWarning

if TYPE_CHECKING:
    from .describe import Description
    from .evaluation import Summary
    from .simulation import Progress, Result

    OnRound = Callable[[str, Progress], None]

output = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
messages = Console(stderr=True, soft_wrap=not sys.stderr.isatty(), highlight=False)


@contextmanager
def show_progress(show: bool) -> "Iterator[OnRound]":
    """A bar on a terminal, plain lines elsewhere."""
    if not show:
        yield lambda stage, progress: None
    elif messages.is_terminal:
        with bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeRemainingColumn(),
            bars.TextColumn("{task.fields[accuracy]}"),
            console=messages,
        ) as shown:
            known: dict[str, bars.TaskID] = {}

            def advance(stage: str, progress: "Progress") -> None:
                if stage not in known:
                    known[stage] = shown.add_task(stage, total=progress.rounds, accuracy="")
                shown.update(known[stage], completed=progress.round)
                if progress.accuracy:
                    shown.update(known[stage], accuracy=percent(progress.accuracy))

            yield advance
    else:

        def line(stage: str, progress: "Progress") -> None:
            if progress.accuracy:
                tell(f"{stage}: round {progress.round}/{progress.rounds}, accuracy {percent(progress.accuracy)}")

        yield line


def tell(text: str, style: str = "", kind: str = "") -> None:
    """A message to the person, beside the output."""
    messages.print(f"[{style}]{kind}:[/] {escape(text)}" if kind else escape(text))


def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """In place of Python's own form, which names lines of source."""
    tell(str(message), "yellow", "Note" if issubclass(category, DegenerateWarning) else category.__name__)


def percent(summary: "Summary") -> str:
    return f"{100 * summary.macro:.1f} ± {100 * summary.std:.1f} %"


def table(*columns: str) -> Table:
    """Plain columns: the first to the left, numbers to the right."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, column in enumerate(columns):
        made.add_column(column, justify="right" if number else "left", no_wrap=True)
    return made


def print_names(found: dict[str, str], kind: str) -> None:
    width = max(map(len, found))
    for name, text in found.items():
        output.print(f"[bold]{name:{width}}[/]  {escape(text)}")
    output.print(f"\nYour own: package.module:function, or an entry point of the group partita.{kind}.")


def print_result(result: "Result") -> None:
    clients = f"{len(result.data)} clients of {result.data.name}"
    output.print(f"[bold]{result.algorithm.label}[/], {result.rounds} rounds, {clients}")
    rows = table("test accuracy", "mean ± spread", "all samples", "worst decile")
    recorded = {record.model for record in result.records}
    for model in ("initial", "before_local", "after_local", "after_finetune"):
        if model in recorded:
            summary = result.accuracy(model)
            mark = " *" if model == result.model else ""
            rows.add_row(
                model.replace("_", " ") + mark,
                percent(summary),
                f"{100 * summary.micro:.1f} %",
                f"{100 * summary.worst_decile:.1f} %",
            )
    output.print(rows)
    output.print("* the model that the method is meant to be used with; mean and spread are over clients")
    if result.protocol["oracle_validation"]:
        output.print("[bold]Oracle:[/] test data were handed out as validation data; compare with no other result.")


def print_comparison(results: "dict[str, Result]") -> None:
    base = {name: results[name].accuracy().macro for name in ("local", "fedavg")}
    rows = table("method", "test accuracy", "worst decile", "over local", "over fedavg", "MB/round")
    for name, result in results.items():
        summary = result.accuracy()
        rows.add_row(
            name,
            percent(summary),
            f"{100 * summary.worst_decile:.1f} %",
            f"{100 * (summary.macro - base['local']):+.1f}",
            f"{100 * (summary.macro - base['fedavg']):+.1f}",
            f"{result.bytes_per_round / 1e6:.2f}",
        )
    output.print(rows)
    rounds = next(iter(results.values())).rounds
    output.print(
        f"\nMean ± spread over clients after {rounds} rounds. One seed: differences of a few points mean little."
    )


def print_description(description: "Description") -> None:
    output.print(f"[bold]{description.algorithm}[/]")
    for title, stages in (("In a round", description.stages), ("Before use", description.finetune)):
        if stages:
            output.print(f"{title}:")
        for number, stage in enumerate(stages, 1):
            output.print(f"  {number}. {escape(stage)}")
    rows = table("tensor", "shape", "parameters", "shared", "kept by client", "trained in")
    for row in description.rows:
        rows.add_row(
            row.name,
            " x ".join(map(str, row.shape)) or "scalar",
            f"{row.parameters:,}",
            "yes" if row.shared else "-",
            "yes" if row.kept else "-",
            ", ".join(map(str, row.trained_in)) or "frozen",
        )
    output.print(rows)
    output.print(
        f"Network: {description.parameters:,} parameters; shared {description.shared:,}, "
        f"personal {description.personal:,}, never trained in a round {description.frozen:,}.\n"
        f"Each client and round: {description.bytes_down:,} bytes down, at most {description.bytes_up:,} bytes up."
    )
    if description.sees_single_models:
        output.print("The server uses single clients' models: secure aggregation does not apply.")
