"""Commands that list, show, run and judge the experiments of papers."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import PartitaError
from ..report import REPORT
from . import terminal
from .options import AsJson, On, Workers, executor_text, interruptible
from .report import try_report

if TYPE_CHECKING:
    from ..recipes.recipe import Recipe, Size
    from ..recipes.result import RecipeResult

Name = Annotated[str, typer.Argument(help="See: partita recipe list")]
SmallSize = Annotated[bool, typer.Option("--small", help="The variant that fits a small machine.")]


def list_recipes(as_json: AsJson = False) -> None:
    """List the recipes: tables and figures of papers, and whether results are stored."""
    from ..recipes.places import all_recipes, results_folder
    from ..recipes.result import read_results

    rows = [
        (recipe, [result.size for result in read_results(results_folder(), recipe.name)]) for recipe in all_recipes()
    ]
    if as_json:
        print(json.dumps({recipe.name: {"title": recipe.title, "results": sizes} for recipe, sizes in rows}))
        return
    width = max(len(recipe.name) for recipe, _ in rows)
    for recipe, sizes in rows:
        stored = f" [results: {', '.join(sizes)}]" if sizes else ""
        terminal.write(f"{recipe.name:<{width}}  {recipe.shows}: {recipe.title}{stored}")


def show_recipe(name: Name) -> None:
    """Show a recipe: where it stands, settings, deviations, time, published numbers, and our results."""
    from ..recipes.places import recipe_named, results_folder
    from ..recipes.result import results_or_none

    recipe = recipe_named(name)
    terminal.write(f"{recipe.shows}: {recipe.title}")
    terminal.write(f"Estimated on two cores: {recipe.hours:g} h" + _small_time(recipe))
    if recipe.obstacle:
        terminal.write(f"Not run here: {recipe.obstacle}")
    for each in recipe.deviations:
        terminal.write(f"Deviation: {each}")
    for run in recipe.runs:
        terminal.write(f"{run}: {json.dumps(recipe.settings_of(run))}")
    for result in results_or_none(results_folder(), name):
        _print_result(recipe, result)


def run(
    name: Name,
    small: SmallSize = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where the result goes; by default recipes/results.")
    ] = None,
    finished: Annotated[
        bool, typer.Option("--finished", help="Run nothing: make the result of the runs that are finished.")
    ] = False,
    on: On = None,
    workers: Workers = None,
) -> None:
    """Make or resume the runs of a recipe in runs/recipes, keep the result as data, and judge it.

    Examples:

    partita recipe run hapt

    partita recipe run partial_emnist --small
    """
    from ..recipes.places import recipe_named, results_folder
    from ..recipes.result import write_result
    from ..recipes.runner import command, finished_result, run_recipe, runs_folder

    recipe = recipe_named(name)
    size: Size = "small" if small else "full"
    if finished:
        result = finished_result(recipe, size)
    else:
        with interruptible(command(recipe, size)), terminal.show_events(True) as on_event:
            result = run_recipe(recipe, size, on=executor_text(on, workers), on_event=on_event)
    terminal.tell(f"Result: {write_result(output or results_folder(), result)}")
    folder = runs_folder(recipe, size)
    try_report([folder], folder / REPORT)
    _print_result(recipe, result)


def check(name: Annotated[str | None, typer.Argument(help="By default all.")] = None) -> None:
    """Judge the claims of papers from stored results alone."""
    from ..recipes.judge import judge_claims
    from ..recipes.places import all_recipes, recipe_named, results_folder
    from ..recipes.result import results_or_none

    for recipe in [recipe_named(name)] if name else all_recipes():
        for result in results_or_none(results_folder(), recipe.name):
            size = f" ({result.size})" if result else ""
            for each in judge_claims(recipe, result):
                terminal.write(f"{each.claim.id}, {recipe.name}{size}: {each.verdict.value}. {each.claim.statement}")
                terminal.write(f"    {each.reason}")


def page(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("docs/reproduction.md"),
) -> None:
    """Write the page of reproductions from the recipes and their stored results."""
    from ..recipes.page import page as written
    from ..recipes.places import all_recipes, results_folder

    try:
        path.write_text(written(all_recipes(), results_folder()), encoding="utf-8")
    except OSError as problem:
        raise PartitaError(f"Cannot write {path}: {problem.strerror}.") from problem
    terminal.tell(f"Written: {path}")


def _small_time(recipe: "Recipe") -> str:
    return f"; small: {recipe.small.minutes:g} min ({recipe.small.changed})" if recipe.small else ""


def _print_result(recipe: "Recipe", result: "RecipeResult | None") -> None:
    from ..evaluation.figures import Table
    from ..recipes.judge import judge_claims, judge_numbers
    from ..recipes.page import published_text

    rows = [
        [each.number.name, published_text(each.number), each.ours.text if each.ours else "-", each.verdict.value]
        for each in judge_numbers(recipe, result)
    ]
    terminal.print_table(Table(["per cent", "published", "ours (95 % interval)", "verdict"], rows))
    for claim in judge_claims(recipe, result):
        terminal.say(f"{claim.claim.id}: {claim.verdict.value}. {claim.reason}")
