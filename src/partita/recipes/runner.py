"""How is a recipe run? Each of its runs is made or resumed in its folder; what they found becomes one result."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..api.run import keep_seeds
from ..errors import PartitaError, unknown
from ..evaluation.analysis import make_analysis
from ..experiment.events import OnEvent, ignore
from ..experiment.executor import Executor
from ..experiment.settings.files import make
from ..runs.environment import environment
from ..runs.evaluate import evaluate
from ..runs.folders import find_runs
from ..runs.session import Session
from ..runs.stored import StoredRun, read_run
from .gathering import baseline_results, run_result
from .places import RUNS
from .recipe import Recipe, Size
from .result import RecipeResult, read_result


def runs_folder(recipe: Recipe, size: Size, place: Path = RUNS) -> Path:
    return place / (recipe.name if size == "full" else f"{recipe.name}-{size}")


def command(recipe: Recipe, size: Size) -> str:
    """The line that makes the result again."""
    return f"partita recipe run {recipe.name}" + (" --small" if size == "small" else "")


def run_recipe(
    recipe: Recipe,
    size: Size = "full",
    *,
    only: Sequence[str] = (),
    place: Path = RUNS,
    prepare: Callable[[Mapping[str, Any]], Mapping[str, Any]] = dict,
    stored: Path | None = None,
    on: Executor | str | None = None,
    on_event: OnEvent = ignore,
) -> RecipeResult:
    """Make or resume all runs of a recipe, or those that are named, with the analyses that its numbers need.

    `prepare` may change the settings of each, for a trial. `stored` is a folder of results, from which runs are taken
    that are not made here.
    """
    if size == "small" and recipe.small is None:
        raise PartitaError(f"{recipe.name} has no small variant. Omit --small.")
    if not recipe.runs:
        lent = dict.fromkeys(path.partition("/")[0] for path in recipe.borrowed_of(size).values())
        way = f"its runs are those of {', '.join(lent)}; run these" if lent else recipe.obstacle
        raise PartitaError(f"{recipe.name} has nothing of its own that could be run: {way}")
    for name in only:
        if name not in recipe.runs_of(size):
            raise PartitaError(unknown(f"run of {recipe.name}", name, recipe.runs_of(size)))
    folder = runs_folder(recipe, size, place)
    made: dict[str, list[StoredRun]] = {}
    for name in only or recipe.runs_of(size):
        experiment = make(prepare(recipe.settings_of(name, size)))
        beside = recipe.baselines if recipe.baselines != "none" else False
        kept = keep_seeds(experiment, folder / name, recipe.seeds_of(size), baselines=beside, on=on, on_event=on_event)
        wanted = [analysis for analysis, runs in recipe.analyses.items() if name in runs]
        most = recipe.small.analysed if size == "small" and recipe.small else None
        made[name] = [_analysed(each.stored, wanted, most, on_event) for each in kept]
    return gathered_result(recipe, size, made, stored)


def finished_result(
    recipe: Recipe, size: Size = "full", *, place: Path = RUNS, stored: Path | None = None
) -> RecipeResult:
    """The result of those runs and seeds that are finished; nothing is run."""
    folder, made = runs_folder(recipe, size, place), {}
    for name in recipe.runs_of(size):
        found = [read_run(path) for path in find_runs(folder / name)] if (folder / name).is_dir() else []
        if finished := [run for run in found if run.finished]:
            made[name] = sorted(finished, key=lambda run: run.seed)
    return gathered_result(recipe, size, made, stored)


def gathered_result(
    recipe: Recipe, size: Size, made: Mapping[str, Sequence[StoredRun]], stored: Path | None = None
) -> RecipeResult:
    """What finished runs found, by the recipe's names for them, beside what is stored of others."""
    before = read_result(stored, recipe.name, size) if stored else None
    results = {name: run_result(runs) for name, runs in made.items()}
    known = {**(before.runs if before else {}), **results}
    if not known:
        raise PartitaError(f"No run of {recipe.name} is finished. Continue with: {command(recipe, size)}")
    first = next(iter(made.values()), None)
    return RecipeResult(
        recipe=recipe.name,
        size=size,
        command=command(recipe, size),
        environment=_environment() if results or not before else before.environment,
        runs={name: known[name] for name in (*recipe.runs, *recipe.authors) if name in known},
        baselines=(baseline_results(first) if first else {}) or (before.baselines if before else {}),
    )


def _environment() -> dict[str, object]:
    """Versions and machine; the commit is that of each run."""
    return {name: value for name, value in environment().items() if name != "commit"}


def _analysed(run: StoredRun, wanted: Sequence[str], most: int | None, on_event: OnEvent) -> StoredRun:
    """The run with the analyses that are wanted; those that it has are not made again."""
    settings = {} if most is None else {"clients": most}
    if missing := [make_analysis(name, settings) for name in wanted if name not in run.analyses]:
        with Session.open(run.folder, on_event=on_event) as session:
            evaluate(session, missing)
    return read_run(run.folder)
