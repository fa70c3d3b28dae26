"""Where are recipes and their results? In the checkout, or in the installed package."""

from pathlib import Path

from ..errors import PartitaError, unknown
from .recipe import Recipe, read_recipe

RESULTS = "results"
RUNS = Path("runs") / "recipes"


def recipes_folder() -> Path:
    """The folder `recipes` of the checkout that this package is in; else what the wheel brought."""
    here = Path(__file__).resolve().parent
    checkout = here.parents[2] / "recipes"
    return checkout if (here.parents[2] / "pyproject.toml").is_file() else here / "files"


def results_folder() -> Path:
    return recipes_folder() / RESULTS


def recipe_names() -> list[str]:
    return sorted(path.stem for path in recipes_folder().glob("*.toml"))


def recipe_named(name: str) -> Recipe:
    if name not in recipe_names():
        raise PartitaError(unknown("recipe", name, recipe_names()))
    return read_recipe(recipes_folder() / f"{name}.toml")


def all_recipes() -> list[Recipe]:
    return [recipe_named(name) for name in recipe_names()]
