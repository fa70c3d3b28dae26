"""How does a run stand beside others? Tables of gains, of the guard, and of methods side by side."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from .terminal import MOST_CLIENTS, change, output, score, spread, table

if TYPE_CHECKING:
    from ..runs.gains import Gain
    from ..runs.stored import StoredRun


def print_gains(run: "StoredRun", gains: "list[Gain]", lost: Mapping[str, str]) -> None:
    """Beside a run's scores: the floor, the baselines, whom it hurt, and why baselines are lost."""
    if not gains:
        return
    missing = run.record.baselines and "baselines" not in run.analyses
    if missing and run.record.status == "done":
        output.print(f"The baselines are not done. Continue with: partita resume {run.folder}")
    metric = run.record.metric
    rows = table("compared with", f"its {metric}", "gain", "worst decile", "clients hurt")
    for gain in gains:
        rows.add_row(
            escape(gain.over),
            score(gain.macro, metric),
            change(gain.mean, metric),
            change(gain.worst_decile, metric),
            f"{len(gain.hurt)} of {len(gain.clients)} ({100 * gain.share:.0f} %)",
        )
    output.print(rows)
    output.print("Gains of the model * on test data, client by client; hurt: worse than with that baseline.")
    for gain in gains:
        if gain.hurt:
            more = ", ..." if len(gain.hurt) > MOST_CLIENTS else ""
            listed = ", ".join(map(str, gain.hurt[:MOST_CLIENTS]))
            output.print(f"Worse than {escape(gain.over)}: {listed}{more}")
    failed = {each["name"]: each["problem"] for each in run.analyses.get("baselines_failed", [])}
    for name, problem in {**failed, **lost}.items():
        output.print(f"No {escape(name)}: {escape(problem)}")
    if guard := run.analyses.get("guard"):
        print_guard(guard, metric)


def print_guard(guard: Mapping[str, Any], metric: str) -> None:
    """What the guard chose, and what came of it."""
    chosen = ", ".join(f"{guard['chosen'].count(weight)} x {weight:g}" for weight in guard["weights"])
    before, after, clients = guard["hurt_before"], guard["hurt_after"], len(guard["clients"])
    low, high = (change(guard[end], metric) for end in ("low", "high"))
    output.print(
        f"With the guard {after} instead of {before} of {clients} clients are worse off than with the global model; "
        f"mean {score(guard['macro_guarded'], metric)} instead of {score(guard['macro_personal'], metric)} "
        f"({change(guard['difference'], metric)}, 95 % interval {low} to {high}).\n"
        f"Weights of the personal model, chosen on validation data: {chosen}."
    )


def print_comparison(runs: "Mapping[str, StoredRun]", gains: "Mapping[str, list[Gain]]") -> None:
    """Methods side by side, on the same clients."""
    rows = table(
        "method", "test accuracy", "worst decile", "floor", "over local", "hurt", "over global", "hurt", "MB/round"
    )
    for name, run in runs.items():
        summary = run.summaries()[run.record.variant]
        known = {gain.over: gain for gain in gains[name]}
        against = [
            (change(known[over].mean, "accuracy"), str(len(known[over].hurt))) if over in known else ("-", "-")
            for over in ("local", "global")
        ]
        rows.add_row(
            escape(name),
            spread(summary),
            score(summary.worst_decile, "accuracy"),
            score(known["floor"].macro, "accuracy"),
            *(cell for pair in against for cell in pair),
            f"{run.bytes_per_round / 1e6:.2f}",
        )
    output.print(rows)
    record = next(iter(runs.values())).record
    output.print(
        f"\nMean ± spread over {record.clients} clients after {record.rounds} rounds. Floor: always answering a "
        "client's commonest label.\nHurt: clients worse off than alone, or than with the global model. One seed: "
        "differences of a few points mean little."
    )
