"""What does the page of a method say? A short text by hand, then source, options and measurements from the code."""

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from partita import registry
from partita.core.algorithm import Algorithm
from partita.core.task import Task
from partita.errors import PartitaError
from partita.experiment.settings.describe import describe
from partita.experiment.settings.options import options_of, source_of
from partita.models.cnn4 import cnn4
from partita.recipes.judge import measured
from partita.recipes.measure import Found
from partita.recipes.places import all_recipes, results_folder
from partita.recipes.recipe import Recipe
from partita.recipes.result import read_results

from .markdown import code, table

SHAPE, CLASSES = (3, 32, 32), 10
SCORES = (None, "before_local", "after_finetune")


def names() -> list[str]:
    return registry.built_in("algorithms")


def page(name: str, text: str | None) -> str:
    """The page of a method; `text` is what was written by hand, if anything was."""
    make = registry.get("algorithms", name)
    parts = [text or f"# {name}\n", f"## In the code\n\nSource: {_link(source_of(make))}\n"]
    parts.append(f"{registry.summary(make)} The file is `src/partita/algorithms/{name}.py`.\n")
    parts.append(_options(name))
    parts.append(_partition(make()))
    parts.append(_measured(name))
    parts.append("[Every reading, and where published code differs](../algorithms.md#readings)\n")
    return "\n".join(parts)


def index(texts: Path) -> str:
    """The page of all methods."""
    rows = [
        (f"[{_title(texts, name)}]({name}.md)", code(name), registry.summary(registry.get("algorithms", name)))
        for name in names()
    ]
    return (
        "# Methods\n\nOne page for each. [Algorithms](../algorithms.md) has all of them in one table, the servers and "
        "the readings of the papers.\n\n" + table(("", "name", "in one line"), rows)
    )


def _title(texts: Path, name: str) -> str:
    path = texts / f"{name}.md"
    return path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") if path.exists() else name


def _link(source: str) -> str:
    text, before, address = source.partition("https://")
    return f"{text}<{before}{address}>" if address else source


def _options(name: str) -> str:
    options = options_of(registry.get("algorithms", name))
    rows = [(code(each.name), each.type, code(each.default), each.meaning) for each in options]
    return (
        f"### Options\n\nIn Python `{name}(...)`, on the command line `algorithm.NAME=VALUE`, in a file the section "
        "`[algorithm]`.\n\n" + table(("option", "type", "default", "meaning"), rows)
    )


def _partition(algorithm: Algorithm) -> str:
    try:
        found = describe(algorithm, Task(cnn4(shape=SHAPE, classes=CLASSES)))
    except PartitaError as problem:
        return f"### On a network\n\nOn the network `cnn4`: {problem}\n"
    lines = [f"{number}. {stage}" for number, stage in enumerate(found.stages, 1)]
    before = [f"{number}. {stage}" for number, stage in enumerate(found.finetune, 1)]
    told = [
        f"### On a network\n\n`partita describe {algorithm.name} --model cnn4`: of {found.parameters:,} parameters "
        f"{found.shared:,} are shared and {found.personal:,} personal; {found.frozen:,} are never trained in a round. "
        f"Each client and round: {found.bytes_down:,} bytes down, at most {found.bytes_up:,} bytes up.\n",
        "In a round:\n\n" + "\n".join(lines) + "\n",
    ]
    if before:
        told.append("Before use:\n\n" + "\n".join(before) + "\n")
    if found.sees_single_models:
        told.append("The server uses single clients' models: secure aggregation does not apply.\n")
    return "\n".join(told)


def _measured(name: str) -> str:
    rows = [row for method, *row in measurements() if method == name]
    if not rows:
        return "### Measured\n\nNo recipe with a stored result has this method.\n"
    return (
        "### Measured\n\nIn per cent, from stored results, with 95 % intervals over seeds and clients. "
        "[Reproduction](../reproduction.md) has the settings, the other methods and the verdicts.\n\n"
        + table(("recipe", "number", "published", "ours", "command"), rows)
    )


@cache
def measurements() -> Sequence[Sequence[str]]:
    """Of every stored number: method, recipe, its name, what was published, what we measured, and the command."""
    return [row for recipe in all_recipes() for row in _rows(recipe)]


def _rows(recipe: Recipe) -> Iterator[Sequence[str]]:
    """Scores after the last round, of the recipe's own runs."""
    for result in read_results(results_folder(), recipe):
        found = Found(recipe, result)
        for number in recipe.numbers:
            scored = number.statistic == "mean" and number.minus is None and number.score in SCORES
            if not scored or not isinstance(number.run, str) or number.run not in recipe.runs:
                continue
            ours = measured(found.scores(number))
            published = "" if number.published is None else f"{number.published:.2f}"
            if ours:
                method = _method(recipe, number.run)
                yield method, recipe.shows, number.name, published, ours.text, code(result.command)


def _method(recipe: Recipe, run: str) -> str:
    given = recipe.settings_of(run)["algorithm"]
    return str(given["name"] if isinstance(given, dict) else given)
