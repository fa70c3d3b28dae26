"""Runs that differ in the seed alone belong together; others of the same method are told apart."""

from pathlib import Path
from typing import Any

import pytest
from partita.runs.view import View

from partita.errors import PartitaError
from partita.evaluation.scores import Record
from partita.runs.grouping import grouped
from partita.runs.scores import scores_of


def run(folder: str, right: int, *, rate: float = 0.1, seed: int = 0, label: str = "fedper", **about: Any) -> View:
    """A run of one round and one client, that has so many of 10 right."""
    settings = {"algorithm": {"name": label, "rate": rate}, "seed": seed, "data": {"name": "digits", "seed": seed}}
    record = Record(1, 0, "before_local", "test", 10, right, 1.0)
    known = {"settings": settings, "label": label, "model": "before_local", "metric": "accuracy", "newcomers": []}
    return View(Path(folder), known | {"rounds": 1, "status": "done"} | about, [(1, 1.0, 1)], [record], [], {})


def test_seeds_belong_together_and_settings_do_not() -> None:
    runs = [
        run(f"{place}/seed-{seed}", 3, rate=rate, seed=seed)
        for place, rate in (("a", 0.1), ("b", 0.2))
        for seed in (0, 1)
    ]
    found = {name: [each.folder.as_posix() for each in views] for name, views in grouped(runs).items()}
    assert found == {"fedper (a)": ["a/seed-0", "a/seed-1"], "fedper (b)": ["b/seed-0", "b/seed-1"]}


def test_no_setting_hides_another() -> None:
    """Three settings under one seed, in folders of the same name."""
    runs = [run(f"{place}/seed-0", right, rate=right / 10) for place, right in (("a", 1), ("b", 2), ("c", 3))]
    scores = scores_of(runs)
    assert sorted(each[0, 0] for each in scores.values()) == [0.1, 0.2, 0.3]


def test_names_of_different_methods_stay_short() -> None:
    scores = scores_of([run("a", 4, label="fedper"), run("b", 5, label="fedavg"), run("c", 6, label="fedavg", seed=1)])
    assert scores == {"fedper": {(0, 0): 0.4}, "fedavg": {(0, 0): 0.5, (1, 0): 0.6}}


def test_what_cannot_be_compared() -> None:
    with pytest.raises(PartitaError, match="not done"):
        scores_of([run("a", 4, rounds=2)])
    with pytest.raises(PartitaError, match="different metrics"):
        scores_of([run("a", 4), run("b", 4, metric="RMSE")])
