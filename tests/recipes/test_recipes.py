"""Recipes are read strictly, every one of them runs, and the page and its pictures are made from the data."""

import inspect
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from partita import registry
from partita.data.clients import from_clients
from partita.data.federation import federate
from partita.errors import PartitaError
from partita.experiment.settings.files import make
from partita.experiment.settings.settings import arguments
from partita.recipes.judge import judge_claims, judge_numbers
from partita.recipes.learned import TEXT, learned
from partita.recipes.page import PICTURES, drawn_pictures, page
from partita.recipes.places import all_recipes, recipe_named, recipe_names, results_folder
from partita.recipes.recipe import read_recipe, runs_of
from partita.recipes.result import SIZES, read_results, write_result
from partita.recipes.runner import finished_result, run_recipe

DOCS = Path(__file__).resolve().parents[2] / "docs"
CLAIMS = [
    f"{paper}{number}" for paper, count in {"F": 9, "B": 13, "S": 7, "P": 6}.items() for number in range(1, count + 1)
]


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
        (
            HEAD + '[runs.b]\n[[numbers]]\nname = "a"\nrun = "b"\npublished = 1.0',
            "does not state its place in the paper",
        ),
        (HEAD + '[[claims]]\nid = "F1"\nstatement = "s"\nhigher = ["a"]\nlower = ["b"]', "Unknown number 'a'"),
        (HEAD + '[[claims]]\nid = "F1"\nstatement = "s"', "needs numbers .* or a reason"),
        (HEAD + '[[claims]]\nid = "Fan"\nstatement = "s"\nuntested = "why"', "Claim id 'Fan': .* such as F1"),
        (HEAD + '[[claims]]\nid = ""\nstatement = "s"\nuntested = "why"', "Claim id ''"),
        (HEAD + '[[pictures]]\nname = "p"\nshows = "s"\ndrawing = "curves"\nof = ["a"]', "Unknown run 'a'"),
        (
            HEAD + '[[pictures]]\nname = "p"\nshows = "s"\ndrawing = "curve"\nof = []',
            "drawing is 'curve', but must",
        ),
        (HEAD + '[analyses]\nfinetuning = ["a"]', "Unknown run 'a'"),
        (HEAD + '[authors]\na = "b"', "Unknown run 'b'"),
        (HEAD + '[runs.b]\n[[numbers]]\nname = "a"\nrun = "b"\nminus = "c"', "Unknown number 'c'"),
    ],
)
def test_what_a_recipe_cannot_mean_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(PartitaError, match=message):
        read_recipe(path)


def samples(folder: Path) -> Path:
    """Random rows of four classes."""
    draw = np.random.default_rng(0)
    path = folder / "rows.npz"
    np.savez(path, x=draw.normal(size=(40, 6)).astype(np.float32), y=np.arange(40) % 4)
    return path


def shrunk(path: Path, settings: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """The same method in one round on these rows, by a small network."""
    fixed = {
        "rounds": 1,
        "participation": 1.0,
        "evaluate_every": 0,
        "data": {"name": "npz", "path": str(path), "split": {"name": "iid", "clients": 2}, "validation": 0.2},
        "model": {"name": "mlp", "hidden": 4, "layers": 5},
        "groups": {"input": "layer1", "adapter": "layer2", "head": "head"},
    }
    pretrain = {"pretrain": {**settings["pretrain"], "rounds": 1}} if "pretrain" in settings else {}
    return {**settings, **fixed, **pretrain, **changes}


@cache
def new_methods() -> dict[str, list[str]]:
    """Of each recipe, the runs whose method no recipe before it has, whatever its numbers."""
    seen: set[str] = set()
    found: dict[str, list[str]] = {}
    for recipe in all_recipes():
        for run in recipe.runs:
            method = re.sub(r"\d[\d.e-]*", "#", str(recipe.settings_of(run)["algorithm"]))
            if method not in seen:
                found.setdefault(recipe.name, []).append(run)
            seen.add(method)
    return found


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_runs(name: str, tmp_path: Path) -> None:
    """In one round on random rows, by a small network; a method that several recipes have is run for one of them."""
    recipe = replace(recipe_named(name), seeds=1, baselines="none", analyses={})
    wanted = new_methods().get(name, list(recipe.runs)[:1])
    if not wanted:
        assert recipe.borrowed or recipe.obstacle
        return
    micro = partial(shrunk, samples(tmp_path))
    made = run_recipe(recipe, only=wanted, place=tmp_path, prepare=micro, on="inline")
    assert list(made.runs) == wanted
    for judged in judge_numbers(recipe, made):
        if judged.number.run in wanted and judged.number.score in (None, "before_local", "after_finetune"):
            assert judged.ours is not None or judged.number.minus or judged.number.statistic == "rounds"
    assert finished_result(recipe, place=tmp_path) == made


def test_a_result_holds_the_course_and_what_analyses_found(tmp_path: Path) -> None:
    recipe = replace(
        recipe_named("fedper_figure15"),
        borrowed={},
        runs={"fedper": {"algorithm": {"name": "fedper", "epochs": 1}}},
        analyses=dict.fromkeys(("finetuning", "without_head", "training", "similarity"), ("fedper",)),
        seeds=2,
    )
    micro = partial(shrunk, samples(tmp_path), rounds=3, evaluate_every=1)
    made = run_recipe(recipe, place=tmp_path, prepare=micro, on="inline").runs["fedper"]
    assert made.seeds == ["0", "1"]
    assert made.course is not None
    assert made.course.rounds == [1, 2, 3]
    for seed in made.seeds:
        by_round = made.course.test[seed]
        assert by_round[-1] == made.scores["before_local"][seed]
        assert made.scores["before_local@test"][seed] == max(by_round, key=fmean)
        validated = [mean or 0.0 for mean in made.course.validation[seed]]
        chosen = validated.index(max(validated))
        assert made.scores["before_local@validation"][seed] == by_round[chosen]
        # As each starts from the model before local training.
        assert made.scores["finetuning.full.0"][seed] == made.scores["before_local"][seed]
        assert made.scores["without_head.with_head"][seed] == made.scores["before_local"][seed]
        assert made.scores["cka.layer1"][seed] == [1.0, 1.0]
        assert made.scores["training.used"][seed] == made.scores["training.before_local"][seed]
    assert made.validated == pytest.approx(fmean(each[-1] or 0 for each in made.course.validation.values()), abs=1e-5)
    # What is stored is added to, and not made again.
    stored = tmp_path / "results"
    write_result(stored, run_recipe(recipe, place=tmp_path, prepare=micro, on="inline"))
    more = replace(recipe, runs={**recipe.runs, "local": {"algorithm": {"name": "local"}}}, seeds=1, analyses={})
    both = run_recipe(more, only=["local"], place=tmp_path, prepare=micro, stored=stored, on="inline")
    assert list(both.runs) == ["fedper", "local"]
    assert both.runs["fedper"] == made


def test_every_run_has_settings_that_exist() -> None:
    """All options of methods, networks, data and divisions, of the full and of the small variant; nothing is read."""
    rows = from_clients({name: (np.zeros((4, 2)), np.arange(4) % 2) for name in "ab"}, most_duplicates=1.0)
    for recipe in all_recipes():
        for size in SIZES if recipe.small else SIZES[:1]:
            for run in recipe.runs_of(size):
                settings = recipe.settings_of(run, size)
                make(settings, rows)
                data = dict(settings["data"])
                own = inspect.signature(registry.get("data", data.pop("name"))).parameters
                division = {key: value for key, value in data.items() if key not in own}
                arguments(federate, division, f"{recipe.name}, {run}", without=("pool",))


def shown(text: str) -> set[str]:
    """The tables and figures that a text names.

    >>> sorted(shown("Tables 3, 4 and 9 to 11 (EMNIST), Figure 2"))
    ['Figure 2', 'Table 10', 'Table 11', 'Table 3', 'Table 4', 'Table 9']
    """
    found = set()
    for kind, numbers in re.findall(r"(Table|Figure)s? ((?:\d+(?:, | and | to )?)+)", text):
        for first, last in re.findall(r"(\d+)(?: to (\d+))?", numbers):
            found |= {f"{kind} {number}" for number in range(int(first), int(last or first) + 1)}
    return found


@pytest.mark.parametrize(
    ("paper", "tables", "figures"), [("flayer", 5, 3), ("fedbabu", 25, 16), ("partial", 12, 10), ("fedper", 0, 18)]
)
def test_every_table_and_figure_of_the_papers_has_a_recipe(paper: str, tables: int, figures: int) -> None:
    all_of = {f"Table {number + 1}" for number in range(tables)} | {f"Figure {number + 1}" for number in range(figures)}
    assert set().union(*(shown(recipe.shows) for recipe in all_recipes() if recipe.paper == paper)) == all_of


def test_every_claim_of_the_papers_is_there() -> None:
    stated = {claim.id for recipe in all_recipes() for claim in recipe.claims}
    assert set(CLAIMS) <= stated


def test_borrowed_runs_exist() -> None:
    for recipe in all_recipes():
        for other in recipe.borrowed_of("small").values():
            name, _, run = other.partition("/")
            assert run in recipe_named(name).runs, f"{recipe.name} borrows {other}"


def test_stored_results_are_of_recipes_and_of_their_runs() -> None:
    for path in results_folder().glob("*.json"):
        recipe = recipe_named(path.stem.removesuffix("-small"))
        for result in read_results(results_folder(), recipe):
            known = {*recipe.runs, *recipe.authors, *recipe.borrowed_of(result.size)}
            assert result.runs.keys() <= known
            assert all(judged.reason for judged in judge_claims(recipe, result))
            for number in recipe.numbers:
                assert all(run in known for run in runs_of(number))


def test_the_page_is_that_of_the_data() -> None:
    text = page(all_recipes(), results_folder())
    assert (DOCS / "reproduction.md").read_text(encoding="utf-8") == text, "write it again with: partita recipe page"


def test_what_was_learned_is_in_the_data() -> None:
    text = learned(TEXT.read_text(encoding="utf-8"), results_folder())
    assert "{{" not in text
    assert (DOCS / "learned.md").read_text(encoding="utf-8") == text, "write it again with: partita recipe page"


def test_errors_are_written_with_more_digits_than_shares() -> None:
    share, error = (
        learned(f"{{{{{figure}}}}}", results_folder())
        for figure in ("hapt full: FedPer", "fedper_movielens small: FedPer")
    )
    assert re.fullmatch(r"\d+\.\d \(\d+\.\d to \d+\.\d\)", share)
    assert re.fullmatch(r"\d\.\d{3} \(\d\.\d{3} to \d\.\d{3}\)", error)


def test_whoever_is_off_the_published_numbers_says_why() -> None:
    for recipe in all_recipes():
        for result in read_results(results_folder(), recipe):
            off = [
                each.number.name
                for each in judge_numbers(recipe, result)
                if each.ours and each.ours.interval and each.number.published is not None and not each.number.invalid
                if not each.ours.interval[0] <= each.number.published <= each.ours.interval[1]
            ]
            assert not off or recipe.notes, f"{recipe.name}: {off}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{hapt full: FedAvgg}}", "Unknown number 'FedAvgg'"),
        ("{{hapt small: FedAvg}}", "no stored result has it"),
        ("{{hapt full: FedAvg minus nothing}}", "Unknown number 'nothing'"),
    ],
)
def test_a_figure_that_is_not_stored_cannot_be_written(text: str, message: str) -> None:
    with pytest.raises(PartitaError, match=message):
        learned(text, results_folder())


def test_the_pictures_are_those_of_the_data() -> None:
    drawn = drawn_pictures(all_recipes(), results_folder())
    stored = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / PICTURES).glob("*.svg")}
    assert stored == {name: each.svg for name, each in drawn.items()}, "write them again with: partita recipe page"
    for name, each in drawn.items():
        root = ElementTree.fromstring(each.svg)
        assert root.tag == "{http://www.w3.org/2000/svg}svg", name
        assert each.table.rows, name
