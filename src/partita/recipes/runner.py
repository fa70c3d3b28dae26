"""How is a recipe run? Each of its runs is made or resumed in its folder; what they found becomes one result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from ..api.run import keep_seeds
from ..errors import PartitaError
from ..evaluation.variants import Variant
from ..experiment.files import make
from ..runs.environment import environment
from ..runs.folders import find_runs
from ..runs.gains import Beside, named_baselines
from ..runs.stored import StoredRun, read_run
from ..simulation.events import OnEvent, ignore
from ..simulation.executor import Executor
from .places import RUNS
from .recipe import Recipe, Size
from .result import DIGITS, RecipeResult, RunResult


def runs_folder(recipe: Recipe, size: Size, place: Path = RUNS) -> Path:
    return place / (recipe.name if size == "full" else f"{recipe.name}-{size}")


def command(recipe: Recipe, size: Size) -> str:
    """The line that makes the result again."""
    return f"partita recipe run {recipe.name}" + (" --small" if size == "small" else "")


def run_recipe(
    recipe: Recipe,
    size: Size = "full",
    *,
    place: Path = RUNS,
    prepare: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict,
    on: Executor | str | None = None,
    on_event: OnEvent = ignore,
) -> RecipeResult:
    """Make or resume all runs of a recipe. `prepare` may change the settings of each, for a trial."""
    if size == "small" and recipe.small is None:
        raise PartitaError(f"{recipe.name} has no small variant. Leave --small away.")
    if not recipe.runs:
        raise PartitaError(f"{recipe.name} has nothing that could be run: {recipe.obstacle}")
    folder = runs_folder(recipe, size, place)
    made: dict[str, list[StoredRun]] = {}
    for name in recipe.runs:
        experiment = make(prepare(recipe.settings_of(name, size)))
        beside = recipe.baselines if recipe.baselines != "none" else False
        kept = keep_seeds(experiment, folder / name, recipe.seeds_of(size), baselines=beside, on=on, on_event=on_event)
        made[name] = [each.stored for each in kept]
    return gathered_result(recipe, size, made)


def finished_result(recipe: Recipe, size: Size = "full", *, place: Path = RUNS) -> RecipeResult:
    """The result of those runs that are finished under every seed; nothing is run."""
    folder, made = runs_folder(recipe, size, place), {}
    for name in recipe.runs:
        found = [read_run(path) for path in find_runs(folder / name)]
        if len(found) == recipe.seeds_of(size) and all(run.finished for run in found):
            made[name] = sorted(found, key=lambda run: run.seed)
    if not made:
        raise PartitaError(f"No run in {folder} is finished under all seeds. Go on with: {command(recipe, size)}")
    return gathered_result(recipe, size, made)


def gathered_result(recipe: Recipe, size: Size, made: Mapping[str, Sequence[StoredRun]]) -> RecipeResult:
    """What finished runs found, by the recipe's names for them."""
    first = next(iter(made.values()))
    return RecipeResult(
        recipe=recipe.name,
        size=size,
        command=command(recipe, size),
        date=date.today().isoformat(),
        environment={**environment(), "commit": first[0].record.environment.get("commit")},
        runs={name: _run_result(runs) for name, runs in made.items()},
        baselines=_baselines(first),
    )


def _run_result(runs: Sequence[StoredRun], variant: Variant | None = None, choice: str = "") -> RunResult:
    first = runs[0]
    clients = sorted(first.tested(variant))
    used = variant or first.record.variant
    variants = [used] if variant else sorted(first.summaries())
    scores = {
        each: {str(run.seed): [round(run.scores(each)[client], DIGITS) for client in clients] for run in runs}
        for each in variants
        if all(set(clients) <= run.scores(each).keys() for run in runs)
    }
    return RunResult(
        settings=dict(first.record.settings),
        rounds=first.record.rounds,
        metric=first.record.metric,
        variant=used,
        fingerprint=first.record.fingerprint,
        seconds=round(sum(seconds for run in runs for _, seconds, _ in run.rounds), 1),
        clients=[first.record.name_of(client) for client in clients],
        samples=[first.tested(variant)[client].count for client in clients],
        scores=scores,
        choice=choice,
    )


def _baselines(runs: Sequence[StoredRun]) -> dict[str, RunResult]:
    """The floor and the baselines of the first method, which are the same for all methods on its data."""
    found = _floor(runs)
    read: dict[Path, StoredRun] = {}
    named = [named_baselines(run, read).found for run in runs]
    for name, beside in named[0].items():
        if all(name in each for each in named):
            found[name] = _run_result([each[name].run for each in named], _variant(beside), beside.choice)
    return found


def _floor(runs: Sequence[StoredRun]) -> dict[str, RunResult]:
    """The score of a constant answer, which no seed changes."""
    lowest, own = runs[0].analyses.get("floor"), _run_result(runs)
    tested = sorted(runs[0].tested())
    if not lowest or not set(tested) <= set(lowest["clients"]):
        return {}
    by_client = dict(zip(lowest["clients"], lowest["score"], strict=True))
    scores = [round(by_client[client], DIGITS) for client in tested]
    constant = {own.variant: {str(run.seed): scores for run in runs}}
    return {"floor": replace(own, settings={}, rounds=0, seconds=0.0, scores=constant)}


def _variant(beside: Beside) -> Variant:
    return beside.variant or beside.run.record.variant
