"""What does a person see? Progress, tables and messages on the terminal."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich import progress as bars
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ..errors import DegenerateWarning
from ..evaluation.metric import Metric
from ..formatting import MINUS

if TYPE_CHECKING:
    from ..data.federation import Federation
    from ..evaluation.scores import Summary
    from ..evaluation.variants import Variant
    from ..experiment.describe import Description
    from ..experiment.estimate import Estimate
    from ..runs.stored import StoredRun
    from ..runs.target import Spent
    from ..simulation.events import Event, OnEvent

MOST_CLIENTS = 40
ORACLE = "[bold]Oracle:[/] test data were handed out as validation data; compare with no other result."
output = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
messages = Console(stderr=True, soft_wrap=not sys.stderr.isatty(), highlight=False)


@contextmanager
def show_events(show: bool) -> "Iterator[OnEvent]":
    """Bars on a terminal, plain lines elsewhere."""
    if not show:
        yield lambda event: None
    elif messages.is_terminal:
        with bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeRemainingColumn(),
            bars.TextColumn("{task.fields[score]}"),
            console=messages,
        ) as shown:
            yield _Bars(shown)
    else:
        yield _tell_event


class _Bars:
    """One bar for each stage and analysis."""

    def __init__(self, shown: bars.Progress) -> None:
        self._shown = shown
        self._known: dict[str, bars.TaskID] = {}

    def __call__(self, event: "Event") -> None:
        from ..simulation.events import Analysed, RoundEnded

        if isinstance(event, RoundEnded):
            score = f"test {event.metric} {spread(event.score, event.metric)}" if event.score else None
            self._advance(event.stage, event.round, event.rounds, score)
        elif isinstance(event, Analysed):
            self._advance(event.analysis, event.done, event.total, None)
        else:
            _tell_event(event)

    def _advance(self, name: str, done: int, total: int, score: str | None) -> None:
        if name not in self._known:
            self._known[name] = self._shown.add_task(escape(name), total=total, score="")
        self._shown.update(self._known[name], completed=done, total=total)
        if score is not None:
            self._shown.update(self._known[name], score=score)


def _tell_event(event: "Event") -> None:
    from ..simulation.events import Analysed, RoundEnded

    if isinstance(event, RoundEnded):
        if event.score:
            reached = spread(event.score, event.metric)
            tell(f"{event.stage}: round {event.round}/{event.rounds}, test {event.metric} {reached}")
    elif isinstance(event, Analysed):
        if event.done == event.total:
            tell(f"{event.analysis}: {event.total} clients")
    else:
        tell(
            f"Another process is working on {event.folder}; waiting for it. Ctrl-C stops this one, and nothing is lost."
        )


def tell(text: str, style: str = "", kind: str = "") -> None:
    """A message to the person, beside the output."""
    messages.print(f"[{style}]{kind}:[/] {escape(text)}" if kind else escape(text))


def show_warning(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """In place of Python's own form, which names lines of source."""
    tell(str(message), "yellow", "Note" if issubclass(category, DegenerateWarning) else category.__name__)


def spread(summary: "Summary", metric: str = "accuracy") -> str:
    return Metric(metric).spread(summary.macro, summary.std)


def score(value: float, metric: str) -> str:
    return Metric(metric).text(value)


def change(gain: float, metric: str) -> str:
    """With a minus that every terminal can show."""
    return Metric(metric).change(gain).replace(MINUS, "-")


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


def print_run(run: "StoredRun", *, oracle: bool = False) -> None:
    """A stored run: what it is, how far it got, and its scores; what is best on test data only if asked for."""
    record = run.record
    output.print(f"[bold]{escape(record.label)}[/], {record.clients} clients of {escape(record.data)}: {record.status}")
    output.print(
        f"{run.done} of {record.rounds} rounds, {run.seconds_per_round:.2f} s and "
        f"{run.bytes_per_round / 1e6:.2f} MB each; started {record.started}"
    )
    if run.evaluated:
        output.print(f"After round {run.evaluated[-1]}:")
        newcomers = run.summaries(newcomers=True).get(record.variant)
        _print_scores(record.metric, dict(run.summaries()), record.variant, newcomers)
        _print_sample(record.evaluated, record.clients)
        chosen = run.chosen_round
        if chosen is not None and chosen != run.evaluated[-1]:
            reached = spread(run.summaries(chosen)[record.variant], record.metric)
            output.print(f"Round {chosen} is best on validation data; its test {record.metric}: {reached}")
        best = run.oracle_round if oracle else None
        if best is not None:
            reached = spread(run.summaries(best)[record.variant], record.metric)
            output.print(f"[bold]Oracle:[/] round {best} is best on the test data themselves: {reached}")
    if record.oracle_validation:
        output.print(ORACLE)
    if record.status != "done":
        output.print(f"Continue with: partita resume {escape(str(run.folder))}")


def _print_sample(evaluated: int, clients: int) -> None:
    if evaluated < clients:
        output.print(f"Evaluated: a fixed sample of {evaluated:,} of the {clients:,} clients (evaluation_clients).")


def print_target(run: "StoredRun", target: float, reached: "Spent | None") -> None:
    wanted = f"A mean test {run.record.metric} of {score(target, run.record.metric)}"
    if reached is None:
        output.print(f"{wanted} was not reached in the {len(run.evaluated)} rounds that were evaluated.")
    else:
        output.print(
            f"{wanted} was reached by round {reached.round}, {reached.seconds:.1f} s and {reached.bytes / 1e6:.2f} MB."
        )


def print_runs(runs: "list[StoredRun]") -> None:
    rows = table("run", "method", "data", "rounds", "score", "status")
    for run in runs:
        used = run.summaries().get(run.record.variant)
        rows.add_row(
            escape(str(run.folder)),
            escape(run.record.label),
            escape(run.record.data),
            f"{run.done}/{run.record.rounds}",
            spread(used, run.record.metric) if used else "-",
            escape(run.record.status.partition(":")[0]),
        )
    output.print(rows)


def _print_scores(metric: str, models: "Mapping[Variant, Summary]", used: str, newcomers: "Summary | None") -> None:
    rows = table(f"test {metric}", "mean ± spread", "all samples", "worst decile", "quantiles 10 | 25 | 50 | 75 | 90 %")
    order: tuple[Variant, ...] = ("initial", "before_local", "after_local", "after_finetune")
    named = {
        model.replace("_", " ") + (" *" if model == used else ""): models[model] for model in order if model in models
    }
    if newcomers:
        named["new clients *"] = newcomers
    for name, summary in named.items():
        quantiles = " | ".join(score(value, metric).removesuffix(" %") for value in summary.quantiles.values())
        alone, worst = score(summary.micro, metric), score(summary.worst_decile, metric)
        rows.add_row(name, spread(summary, metric), alone, worst, quantiles)
    output.print(rows)
    output.print("* the model that the method is meant to be used with; mean and spread are over clients")
    if left_out := max((summary.left_out for summary in models.values()), default=0):
        output.print(f"Left out: {left_out} clients without test samples.")


def print_facts(facts: dict[str, object]) -> None:
    for name, value in facts.items():
        if value is not None:
            output.print(f"{name}: {escape(str(value))}")


def print_division(federation: "Federation", summary: dict[str, Any]) -> None:
    """Counts and labels of each client; of many the first."""
    from ..data.distribution import SHADES, label_counts, shaded

    samples = ", ".join(f"{count:,} for {role}" for role, count in summary["samples"].items())
    output.print(f"[bold]{federation.name}[/], {len(federation)} clients: {samples}")
    for note in summary["notes"]:
        output.print(f"- {escape(note)}")
    labels = "labels" in summary and federation.classes <= 100
    marks = shaded(label_counts(federation)) if labels else [""] * len(federation)
    rows = table("client", "train", "validation", "test", f"labels 0 to {federation.classes - 1}" if labels else "")
    rows.columns[-1].justify = "left"
    for client, (row, mark) in enumerate(zip(summary["by client"], marks, strict=True)):
        if client == MOST_CLIENTS:
            break
        new = " (new)" if client in federation.newcomers else ""
        counts = (f"{row[role]:,}" for role in ("train", "validation", "test"))
        rows.add_row(escape(row["name"]) + new, *counts, escape(mark) + "|" if labels else "")
    output.print(rows)
    if len(federation) > MOST_CLIENTS:
        output.print(f"... and {len(federation) - MOST_CLIENTS} more")
    if labels:
        output.print(f"Shades of a client's share: {escape(SHADES.strip())} from few to all")
    if "floor" in summary:
        lowest = summary["floor"]
        output.print(
            f"Floor: always answering the client's commonest training label is right for {100 * lowest['micro']:.1f} % "
            f"of all test samples, {100 * lowest['macro']:.1f} % in the mean over clients."
        )
    if "hash" in summary:
        output.print(f"Manifest written; its hash is {summary['hash']}.")


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


def print_estimate(found: "Estimate") -> None:
    """Time, bytes and memory of an experiment that has not been run."""
    facts = {
        "rounds": f"{found.rounds}, {found.clients_per_round} of {found.clients} clients each",
        "training": f"{found.training_seconds:.2f} s per round in one process",
        "server": f"{found.server_seconds:.2f} s per round",
        "evaluation": f"{found.evaluation_seconds:.2f} s each time in one process",
        "time per round": f"{found.round_seconds:.2f} s with {found.workers} processes",
        "all rounds": f"{found.total_seconds:.0f} s",
        "sent down": f"{found.bytes_down:,} bytes per round",
        "sent up": f"{found.bytes_up:,} bytes per round{', at most' if found.masked else ''}",
        "memory": f"{found.memory_bytes / 2**20:,.0f} MB",
    }
    for name, fact in facts.items():
        output.print(f"{name + ':':<16}{fact}")
