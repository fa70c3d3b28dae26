"""How is a run shown on the terminal? Its scores, its gains over the baselines, and methods side by side."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..evaluation.variants import VARIANTS, Variant
from ..formatting import amount, listed
from .terminal import MOST_CLIENTS, change, columns, output, print_table, say, score, spread

if TYPE_CHECKING:
    from ..evaluation.gains import Gain
    from ..evaluation.scores import Summary
    from ..runs.gains import NamedBaselines
    from ..runs.stored import StoredRun
    from ..runs.target import Spent


def print_run(run: "StoredRun", *, oracle: bool = False, notes: bool = True) -> None:
    """Print a run: experiment, progress and scores; with `oracle` also the round that is best on test data."""
    from ..experiment.left_out import left_out_text

    record = run.record
    say((record.label, "bold"), f", {amount(record.clients, 'client')} of {record.data}: {record.status}")
    say(
        f"{run.done:,} of {amount(record.rounds, 'round')}, {run.seconds_per_round:.2f} s and "
        f"{run.bytes_per_round / 1e6:.2f} MB each; started {record.started}"
    )
    say(f"Settings: {record.settings_text}")
    for note in record.notes if notes else ():
        say(("Note:", "bold"), f" {note}")
    if run.evaluated:
        say(f"After round {run.evaluated[-1]}:")
        newcomers = run.summaries(newcomers=True).get(record.variant)
        _print_scores(record.metric, dict(run.summaries()), record.variant, newcomers)
        _print_sample(record.evaluated, record.clients)
        chosen = run.chosen_round
        if chosen is not None and chosen != run.evaluated[-1]:
            reached = spread(run.summaries(chosen)[record.variant], record.metric)
            say(f"Round {chosen} is best on validation data; its test {record.metric}: {reached}")
        best = run.oracle_round if oracle else None
        if best is not None:
            reached = spread(run.summaries(best)[record.variant], record.metric)
            say(("Oracle:", "bold"), f" round {best} is best on test data: {reached}")
    if text := left_out_text(run.left_out):
        say((text, "bold"))
    if record.oracle_validation:
        say(("Oracle:", "bold"), " test data were used as validation data. Do not compare this with other results.")
    if run.worked_on:
        say(("It is running:", "bold"), f" another process works on {run.folder} now.")
    elif record.status != "done":
        gone = "Its process has ended. " if record.status == "running" else ""
        say(f"{gone}Continue with: partita resume {run.folder}")


def _print_sample(evaluated: int, clients: int) -> None:
    if evaluated < clients:
        say(f"Evaluated: a fixed sample of {evaluated:,} of the {clients:,} clients (evaluation_clients).")


def print_target(run: "StoredRun", target: float, reached: "Spent | None") -> None:
    wanted = f"A mean test {run.record.metric} of {score(target, run.record.metric)}"
    if reached is None:
        say(f"{wanted} was not reached in the {len(run.evaluated):,} rounds that were evaluated.")
    else:
        say(f"{wanted} was reached by round {reached.round}, {reached.seconds:.1f} s and {reached.bytes / 1e6:.2f} MB.")


def print_runs(runs: "list[StoredRun]") -> None:
    rows = columns("run", "method", "data", "rounds", "score", "status")
    for run in runs:
        used = run.summaries().get(run.record.variant)
        rows.add_row(
            str(run.folder),
            run.record.label,
            run.record.data,
            f"{run.done}/{run.record.rounds}",
            spread(used, run.record.metric) if used else "-",
            run.record.status.partition(":")[0],
        )
    output.print(rows)


def _print_scores(
    metric: str, summaries: "Mapping[Variant, Summary]", used: Variant, newcomers: "Summary | None"
) -> None:
    rows = columns(
        f"test {metric}", "mean ± spread", "all samples", "worst decile", "quantiles 10 | 25 | 50 | 75 | 90 %"
    )
    named = {
        variant.replace("_", " ") + (" *" if variant == used else ""): summaries[variant]
        for variant in VARIANTS
        if variant in summaries
    }
    if newcomers:
        named["new clients *"] = newcomers
    for name, summary in named.items():
        values = " | ".join(score(value, metric).removesuffix(" %") for value in summary.quantiles.values())
        micro, worst = score(summary.micro, metric), score(summary.worst_decile, metric)
        rows.add_row(name, spread(summary, metric), micro, worst, values)
    output.print(rows)
    say("* the model that the method is meant to be used with; mean and spread are over clients")
    if left_out := max((summary.left_out for summary in summaries.values()), default=0):
        say(f"Left out: {left_out:,} clients without test samples.")


def print_gains(run: "StoredRun", gains: "list[Gain]", beside: "NamedBaselines") -> None:
    """Print a run's gains over floor and baselines, the clients that are hurt, missing baselines, and the guard."""
    from ..runs.gains import at_the_floor, remarks

    if not gains:
        return
    record, metric = run.record, run.record.metric
    if record.baselines and "baselines" not in run.analyses and record.done:
        way = "They are being made." if run.worked_on else f"Continue with: partita resume {run.folder}"
        say(f"The baselines are not finished. {way}")
    rows = columns("compared with", f"its {metric}", "gain", "worst decile", "clients hurt")
    for gain in gains:
        rows.add_row(
            gain.over,
            score(gain.macro, metric),
            change(gain.mean, metric),
            change(gain.worst_decile, metric),
            gain.hurt_text,
        )
    output.print(rows)
    say(
        "Gains of the model * on test data, client by client. Hurt: the client does worse than with that baseline. "
        "Surely: the 95 % interval of the client's gain is below 0."
    )
    floor = [(run.seed, gain) for gain in gains if gain.over == "floor"]
    if said := at_the_floor(dict(floor), run.metric):
        say(f"The model * is {said}.")
    totals = [gain.over for gain in gains if gain.has_intervals and not gain.paired]
    if totals:
        say(f"The intervals over {listed(totals)} are from totals, not from pairs of answers, and so too wide.")
    for name, each in beside.found.items():
        say(f"{name}: {each.run.record.settings_text}; {each.choice}")
    for text in remarks([(run, beside.found)]):
        say(("Note: ", "bold"), text)
    for gain in gains:
        if gain.hurt:
            more = ", ..." if len(gain.hurt) > MOST_CLIENTS else ""
            names = ", ".join(record.name_of(client) for client in gain.hurt[:MOST_CLIENTS])
            say(f"Worse than {gain.over}: {names}{more}")
    _print_missing(run, beside.lost)
    _print_last_analyses(run)


def _print_missing(run: "StoredRun", lost: Mapping[str, str]) -> None:
    failed = {each["name"]: each["problem"] for each in run.analyses.get("baselines_failed", [])}
    for name, problem in {**failed, **lost}.items():
        say(f"No {name}: {problem}")


def _print_last_analyses(run: "StoredRun") -> None:
    """Print analyses that are made at the end of a run, such as the guard, or why there is none."""
    from ..evaluation.analysis import declared

    known = {name.removesuffix("_failed") for name in run.analyses}
    for name, analysis in declared("end", among=known).items():
        if found := run.analyses.get(name):
            for table in analysis.tables(found, run.metric):
                print_table(table)
        elif problem := run.analyses.get(f"{name}_failed"):
            say(f"No {name}: {problem}")


def print_comparison(runs: "Mapping[str, StoredRun]", gains: "Mapping[str, list[Gain]]") -> None:
    """Print methods side by side, on the same clients."""
    rows = columns(
        "method", "test accuracy", "worst decile", "floor", "over local", "hurt", "over global", "hurt", "MB/round"
    )
    for name, run in runs.items():
        summary = run.summaries()[run.record.variant]
        known = {gain.over: gain for gain in gains[name]}
        against = [
            (change(known[over].mean, "accuracy"), known[over].hurt_text) if over in known else ("-", "-")
            for over in ("local", "global")
        ]
        rows.add_row(
            name,
            spread(summary),
            score(summary.worst_decile, "accuracy"),
            score(known["floor"].macro, "accuracy"),
            *(cell for pair in against for cell in pair),
            f"{run.bytes_per_round / 1e6:.2f}",
        )
    output.print(rows)
    record = next(iter(runs.values())).record
    say(
        f"\nMean ± spread over {amount(record.clients, 'client')} after {amount(record.rounds, 'round')}. Floor: "
        "always answering a client's most common label.\nHurt: clients that do worse than with local training, or than "
        "with the global model. Surely: the 95 % interval of the client's gain is below 0. One seed: differences of a "
        "few points mean little."
    )
