"""What of a run is kept in a recipe's result? Its scores by seed and client, its course, and what analyses found."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from ..evaluation.variants import Variant
from ..runs.gains import Beside, named_baselines
from ..runs.stored import StoredRun
from .result import DIGITS, Course, RunResult

Scores = dict[str, dict[str, list[float | None]]]
MOST = 10_000
"""A course of more scores than this is left out of the result."""


def run_result(runs: Sequence[StoredRun], variant: Variant | None = None, choice: str = "") -> RunResult:
    """What one experiment found under its seeds; of one variant, or of all that it was measured under."""
    first = runs[0]
    clients = sorted(first.tested(variant))
    used = variant or first.record.variant
    variants = [used] if variant else sorted(first.summaries())
    scores: Scores = {
        each: {str(run.seed): _rounded(run.scores(each), clients) for run in runs}
        for each in variants
        if all(set(clients) <= run.scores(each).keys() for run in runs)
    }
    if not variant:
        scores |= _at_best_rounds(runs, clients) | _of_analyses(runs, clients)
    _, sizes = first.sample_counts
    validated = [mean for run in runs if (mean := _validated(run, used)) is not None]
    return RunResult(
        settings=dict(first.record.settings),
        rounds=first.record.rounds,
        metric=first.record.metric,
        variant=used,
        fingerprint=first.record.fingerprint,
        seconds=round(sum(seconds for run in runs for _, seconds, _ in run.rounds), 1),
        clients=[first.record.name_of(client) for client in clients],
        samples=[first.tested(variant)[client].count for client in clients],
        sizes=[sizes[client] for client in clients],
        scores=scores,
        course=None if variant else _course(runs, clients),
        validated=round(fmean(validated), DIGITS) if validated else None,
        choice=choice,
        date=first.record.started[:10],
        commit=str(first.record.environment.get("commit") or ""),
    )


def baseline_results(runs: Sequence[StoredRun]) -> dict[str, RunResult]:
    """The floor and the baselines of the first method, which are the same for all methods on its data."""
    found = _floor(runs)
    read: dict[Path, StoredRun] = {}
    named = [named_baselines(run, read).found for run in runs]
    for name, beside in named[0].items():
        if all(name in each for each in named):
            found[name] = run_result([each[name].run for each in named], _variant(beside), beside.choice)
    return found


def _floor(runs: Sequence[StoredRun]) -> dict[str, RunResult]:
    """The score of a constant answer, which no seed changes."""
    lowest, own = runs[0].analyses.get("floor"), run_result(runs, runs[0].record.variant)
    tested = sorted(runs[0].tested())
    if not lowest or not set(tested) <= set(lowest["clients"]):
        return {}
    by_client = dict(zip(lowest["clients"], lowest["score"], strict=True))
    scores = _rounded(by_client, tested)
    constant: Scores = {own.variant: {str(run.seed): scores for run in runs}}
    return {"floor": replace(own, settings={}, rounds=0, seconds=0.0, scores=constant, validated=None)}


def _variant(beside: Beside) -> Variant:
    return beside.variant or beside.run.record.variant


def _at_best_rounds(runs: Sequence[StoredRun], clients: Sequence[int]) -> Scores:
    """Scores after the round that is best on validation data, and after that which is best on test data."""
    used, found = runs[0].record.variant, {}
    if all(len(run.evaluated) > 1 for run in runs):
        for data in ("validation", "test"):
            rounds = [run.chosen_round if data == "validation" else run.oracle_round for run in runs]
            found[f"{used}@{data}"] = {
                str(run.seed): _rounded(_scores_at(run, at, used), clients)
                for run, at in zip(runs, rounds, strict=True)
                if at is not None
            }
    return {name: by_seed for name, by_seed in found.items() if len(by_seed) == len(runs)}


def _course(runs: Sequence[StoredRun], clients: Sequence[int]) -> Course | None:
    used, rounds = runs[0].record.variant, runs[0].evaluated
    if len(rounds) < 2 or len(rounds) * len(clients) * len(runs) > MOST:
        return None
    test = {str(run.seed): [_known(_scores_at(run, at, used), clients) for at in rounds] for run in runs}
    validation = {str(run.seed): _means(run, rounds, used) for run in runs}
    return Course(rounds, test, validation)


def _means(run: StoredRun, rounds: Sequence[int], used: Variant) -> list[float | None]:
    known = run.course(used, "validation")
    return [round(known[at], DIGITS) if at in known else None for at in rounds]


def _validated(run: StoredRun, used: Variant) -> float | None:
    return run.course(used, "validation").get(run.last)


def _scores_at(run: StoredRun, at: int, used: Variant) -> dict[int, float]:
    chosen = (each for each in run.numbers.at(at) if (each.variant, each.role) == (used, "test") and each.count)
    return {record.client: record.score for record in chosen}


def _of_analyses(runs: Sequence[StoredRun], clients: Sequence[int]) -> Scores:
    """What analyses found of each client, where they were made under every seed."""
    by_seed = [_named_scores(run) for run in runs]
    names = [name for name in by_seed[0] if all(name in each for each in by_seed)]
    return {
        name: {str(run.seed): _rounded(each[name], clients) for run, each in zip(runs, by_seed, strict=True)}
        for name in names
    }


def _named_scores(run: StoredRun) -> dict[str, dict[int, float | None]]:
    found: dict[str, dict[int, float | None]] = {}
    if tuned := run.analyses.get("finetuning"):
        for part, curve in tuned["parts"].items():
            for epoch, scores in zip(tuned["epochs"], curve.get("scores", ()), strict=False):
                found[f"finetuning.{part}.{epoch}"] = dict(zip(tuned["clients"], scores, strict=True))
    for analysis in ("without_head", "training"):
        if by_name := run.analyses.get(analysis):
            for name, scores in by_name.get("scores", {}).items():
                found[f"{analysis}.{name}"] = dict(zip(by_name["clients"], scores, strict=True))
    if alike := run.analyses.get("similarity"):
        for layer, scores in zip(alike["layers"], alike.get("cka_by_client", ()), strict=False):
            if scores is not None:
                found[f"cka.{layer}"] = dict(zip(alike["clients"], scores, strict=True))
    return found


def _rounded(scores: Mapping[int, float | None] | Mapping[int, float], clients: Sequence[int]) -> list[float | None]:
    """In the order of clients; None for those that are not there."""
    values = (scores.get(client) for client in clients)
    return [None if value is None else round(value, DIGITS) for value in values]


def _known(scores: dict[int, float], clients: Sequence[int]) -> list[float]:
    return [round(scores[client], DIGITS) for client in clients]
