"""Recipes are read strictly and judged honestly, every one of them runs, and the page is made from the data."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partita.errors import PartitaError
from partita.recipes.judge import Verdict, judge_claims, judge_numbers
from partita.recipes.page import page
from partita.recipes.places import all_recipes, recipe_named, recipe_names, results_folder
from partita.recipes.recipe import Claim, Number, Recipe, read_recipe
from partita.recipes.result import RecipeResult, RunResult, read_results, write_result
from partita.recipes.runner import run_recipe

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reproduction.md"


def recipe(**changes: Any) -> Recipe:
    numbers = (
        Number("low", run="low", published=50.0, where="Table 1"),
        Number("high", run="high", published=70.0, where="Table 1"),
    )
    made = Recipe(
        "made", "a title", "partita", "Table 1", "published", 1, runs={"low": {}, "high": {}}, numbers=numbers
    )
    return replace(made, claims=(Claim("C1", "high is above low.", ("high",), ("low",), by=15.0),), **changes)


def result(low: float, high: float, **changes: Any) -> RecipeResult:
    """Two seeds, four clients, whose scores are around the given means."""

    def run(mean: float) -> RunResult:
        values = [mean - 0.02, mean - 0.01, mean + 0.01, mean + 0.02]
        scores: Any = {"before_local": {"0": values, "1": values}}
        return RunResult({}, 1, "accuracy", "before_local", "data", 1.0, ["a", "b", "c", "d"], [10, 10, 10, 10], scores)

    environment = {"commit": "c" * 40, "packages": {"torch": "2"}, "cores": 2, "machine": "x86_64"}
    made = RecipeResult("made", "full", "command", "2026-01-01", environment, {"low": run(low), "high": run(high)})
    return replace(made, **changes)


@pytest.mark.parametrize(
    ("low", "high", "numbers", "claim"),
    [
        (0.50, 0.70, [Verdict.REPRODUCED, Verdict.REPRODUCED], Verdict.REPRODUCED),
        (0.60, 0.70, [Verdict.ORDERING, Verdict.REPRODUCED], Verdict.ORDERING),
        (0.70, 0.50, [Verdict.NOT, Verdict.NOT], Verdict.NOT),
        (0.60, 0.60, [Verdict.NOT, Verdict.NOT], Verdict.NOT),
    ],
)
def test_verdicts_follow_the_intervals(low: float, high: float, numbers: list[Verdict], claim: Verdict) -> None:
    found = result(low, high)
    assert [each.verdict for each in judge_numbers(recipe(), found)] == numbers
    assert [each.verdict for each in judge_claims(recipe(), found)] == [claim]


@pytest.mark.parametrize("changes", [{"size": "small"}, {}])
def test_another_protocol_reproduces_an_ordering_at_most(changes: Mapping[str, Any]) -> None:
    given = recipe() if changes else recipe(protocol="reduced")
    found = result(0.5, 0.7, **changes)
    assert {each.verdict for each in judge_numbers(given, found)} == {Verdict.ORDERING}
    assert [each.verdict for each in judge_claims(given, found)] == [Verdict.ORDERING]


def test_without_a_result_nothing_is_reproduced() -> None:
    assert {each.verdict for each in judge_numbers(recipe(), None)} == {Verdict.NOT_RUN}
    assert {each.verdict for each in judge_claims(recipe(), None)} == {Verdict.NOT_RUN}


def test_an_invalid_target_is_never_reproduced() -> None:
    numbers = tuple(replace(each, invalid="not what it is called") for each in recipe().numbers)
    judged = judge_numbers(recipe(numbers=numbers), result(0.5, 0.7))
    assert {each.verdict for each in judged} == {Verdict.INVALID}


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_result(tmp_path, result(0.5, 0.7))
    assert list(read_results(tmp_path, "made")) == [result(0.5, 0.7)]
    path = tmp_path / "made.json"
    path.write_text(path.read_text().replace('"d"', '"d", "e"'))
    with pytest.raises(PartitaError, match="do not fit"):
        list(read_results(tmp_path, "made"))


HEAD = 'title = "t"\npaper = "flayer"\nshows = "Table 1"\nprotocol = "published"\nhours = 1\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = 1", "is missing"),
        (HEAD + "hour = 2", "Did you mean 'hours'"),
        (HEAD.replace("flayer", "flyer"), "paper is 'flyer', but must be 'flayer' or"),
        (HEAD.replace("hours = 1", "hours = 'x'"), "hours is 'x', but must be a number"),
        (HEAD + "seeds = 0", "seeds is 0, but must be a whole number, from 1"),
        (HEAD + "runs = 3", "runs is 3, but must be a table"),
        (HEAD + "numbers = 3", "3 is not a list of tables"),
        (HEAD + "claims = [1]", "1 is not a table"),
        (HEAD + "x = " + "[" * 5000, "nested more than"),
        (HEAD + '[[numbers]]\nname = "a"\nrun = "b"', "Unknown run 'b'"),
        (HEAD + '[[numbers]]\nname = "a"', "obstacle"),
        (HEAD + '[runs.b]\n[[numbers]]\nname = "a"\nrun = "b"\npublished = 1.0', "where it stands"),
        (HEAD + '[[claims]]\nid = "F1"\nstatement = "s"\nhigher = ["a"]\nlower = ["b"]', "Unknown number 'a'"),
    ],
)
def test_what_a_recipe_cannot_mean_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(PartitaError, match=message):
        read_recipe(path)


def images(folder: Path) -> Path:
    """Random images of four classes."""
    draw = np.random.default_rng(0)
    path = folder / "images.npz"
    np.savez(path, x=draw.integers(0, 256, (80, 28, 28), dtype=np.uint8), y=np.arange(80) % 4)
    return path


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_runs(name: str, tmp_path: Path) -> None:
    """Its methods, in one round on random images, by a small network."""
    path = images(tmp_path)

    def micro(settings: Mapping[str, Any]) -> dict[str, Any]:
        pretrain = {"pretrain": {**settings["pretrain"], "rounds": 1}} if "pretrain" in settings else {}
        data = {"name": "npz", "path": str(path), "split": {"name": "iid", "clients": 2}}
        model = {"name": "emnist_convnet"}
        return {**settings, **pretrain, "rounds": 1, "participation": 1.0, "data": data, "model": model}

    found = replace(recipe_named(name), seeds=1, baselines="none")
    made = run_recipe(found, place=tmp_path, prepare=micro, on="inline")
    for judged in judge_numbers(found, made):
        assert (judged.ours is None) == (judged.number.run is None)


def test_the_page_is_that_of_the_data() -> None:
    text = page(all_recipes(), results_folder())
    assert PAGE.read_text(encoding="utf-8") == text, "write it again with: partita recipe page"
