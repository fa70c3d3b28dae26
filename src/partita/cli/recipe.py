"""Commands that list, show, run and judge recipes, the experiments of papers."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import PartitaError
from ..report import REPORT
from . import terminal
from .events import show_events
from .options import AsJson, On, Workers, executor_text, interruptible
from .report import try_report

if TYPE_CHECKING:
    from ..recipes.recipe import Recipe, Size
    from ..recipes.result import RecipeResult

Name = Annotated[str, typer.Argument(metavar="NAME", help="A recipe; see: partita recipe list")]
SmallSize = Annotated[bool, typer.Option("--small", help="Run the variant that fits a small machine.")]
Results = Annotated[
    Path | None,
    typer.Option("--results", metavar="FOLDER", help="The folder of results; by default that of the package."),
]


def list_recipes(as_json: AsJson = False) -> None:
    """List the recipes: tables and figures of papers, and whether results are stored.

    Example: partita recipe list
    """
    from ..recipes.places import all_recipes, results_folder
    from ..recipes.result import read_results

    rows = [(recipe, [result.size for result in read_results(results_folder(), recipe)]) for recipe in all_recipes()]
    if as_json:
        print(json.dumps({recipe.name: {"title": recipe.title, "results": sizes} for recipe, sizes in rows}))
        return
    width = max(len(recipe.name) for recipe, _ in rows)
    for recipe, sizes in rows:
        stored = f" [results: {', '.join(sizes)}]" if sizes else ""
        terminal.write(f"{recipe.name:<{width}}  {recipe.shows}: {recipe.title}{stored}")


def show_recipe(name: Name, results: Results = None) -> None:
    """Show a recipe: its source, settings, deviations, time, published numbers, and our results.

    Example: partita recipe show hapt
    """
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
    for run, other in recipe.borrowed.items():
        terminal.write(f"{run}: the run {other.partition('/')[2]} of {other.partition('/')[0]}")
    for result in results_or_none(results or results_folder(), recipe):
        _print_result(recipe, result)


def run(
    name: Name,
    small: SmallSize = False,
    only: Annotated[
        str | None, typer.Option(metavar="RUNS", help="Make only these runs, separated by commas; other results stay.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            help="The folder of results to which this one is added; by default that of a checkout, or "
            "runs/recipes/results.",
        ),
    ] = None,
    finished: Annotated[
        bool, typer.Option("--finished", help="Make the result from finished runs; start no run.")
    ] = False,
    on: On = None,
    workers: Workers = None,
) -> None:
    """Start or resume the runs of a recipe in runs/recipes, store the result as JSON, and judge it.

    Examples:

    partita recipe run hapt

    partita recipe run partial_emnist --small

    partita recipe run flayer_table2_cifar10 --small --only fedper,flayer
    """
    from ..recipes.places import new_results_folder, recipe_named
    from ..recipes.result import read_results, write_result
    from ..recipes.runner import command, finished_result, run_recipe, runs_folder

    recipe = recipe_named(name)
    size: Size = "small" if small else "full"
    results = output or new_results_folder()
    if finished:
        result = finished_result(recipe, size, stored=results)
    else:
        chosen = [each.strip() for each in only.split(",")] if only else []
        with interruptible(command(recipe, size)), show_events(True) as on_event:
            executor = executor_text(on, workers)
            result = run_recipe(recipe, size, only=chosen, stored=results, on=executor, on_event=on_event)
    terminal.tell(f"Result: {write_result(results, result)}")
    with_borrowed = next(each for each in read_results(results, recipe) if each.size == size)
    folder = runs_folder(recipe, size)
    if folder.is_dir():
        try_report([folder], folder / REPORT)
    _print_result(recipe, with_borrowed)


def check(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A recipe; by default all.")] = None,
    results: Results = None,
) -> None:
    """Judge the claims of papers from stored results alone.

    Example: partita recipe check hapt
    """
    from ..recipes.judge import judge_claims
    from ..recipes.places import all_recipes, recipe_named, results_folder
    from ..recipes.result import results_or_none

    for recipe in [recipe_named(name)] if name else all_recipes():
        for result in results_or_none(results or results_folder(), recipe):
            size = f" ({result.size})" if result else ""
            for each in judge_claims(recipe, result):
                terminal.write(f"{each.claim.id}, {recipe.name}{size}: {each.verdict.value}. {each.claim.statement}")
                terminal.write(f"    {each.reason}")


def page(
    path: Annotated[Path, typer.Argument(metavar="[FILE]", help="The file to write.")] = Path("docs/reproduction.md"),
    results: Results = None,
) -> None:
    """Write the page of reproductions, its pictures and `learned.md` beside it, from recipes and stored results.

    Example: partita recipe page docs/reproduction.md
    """
    from ..recipes.learned import TEXT, learned
    from ..recipes.page import PICTURES, drawn_pictures, page as written
    from ..recipes.places import all_recipes, results_folder

    recipes, stored = all_recipes(), results or results_folder()
    folder = path.parent / PICTURES
    drawn = drawn_pictures(recipes, stored)
    lessons = learned(TEXT.read_text(encoding="utf-8"), stored)
    try:
        (path.parent / "learned.md").write_text(lessons, encoding="utf-8")
        path.write_text(written(recipes, stored), encoding="utf-8")
        folder.mkdir(exist_ok=True)
        for old in folder.glob("*.svg"):
            if old.name not in drawn:
                old.unlink()
        for name, each in drawn.items():
            (folder / name).write_text(each.svg, encoding="utf-8")
    except OSError as problem:
        raise PartitaError(f"Cannot write {path}: {problem.strerror}.") from problem
    terminal.tell(f"Written: {path}, and {len(drawn)} pictures in {folder}")


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
