"""Where are recipes and their results? In the package, which brings them."""

from pathlib import Path

from ..errors import PartitaError, unknown
from .recipe import Recipe, read_recipe

FILES = Path(__file__).parent / "files"
RUNS = Path("runs") / "recipes"


def results_folder() -> Path:
    """Where results are stored that the package brings."""
    return FILES / "results"


def new_results_folder() -> Path:
    """Where a new result goes: beside those that are stored in a checkout, else beside the runs."""
    checkout = FILES.parents[3] / "pyproject.toml"
    return results_folder() if checkout.is_file() else RUNS / "results"


def recipe_names() -> list[str]:
    return sorted(path.stem for path in FILES.glob("*.toml"))


def recipe_named(name: str) -> Recipe:
    if name not in recipe_names():
        raise PartitaError(unknown("recipe", name, recipe_names()))
    return read_recipe(FILES / f"{name}.toml")


def all_recipes() -> list[Recipe]:
    return [recipe_named(name) for name in recipe_names()]
