"""Runs that differ in the seed alone belong together; others of the same method are named by what differs."""

from typing import Any

import pytest

from partita.errors import PartitaError
from partita.evaluation.scores import Record
from partita.experiment.settings.flat import PYTHON
from partita.runs.grouping import grouped
from partita.runs.scores import scores_of
from partita.runs.stored import StoredRun
from studies import experiment_of, stored


def run(
    folder: str, right: int, *, rate: float = 0.1, seed: int = 0, label: str = "fedper", **changes: Any
) -> StoredRun:
    """A run of one round and one client, that has so many of 10 right."""
    record = Record(1, 0, "before_local", "test", 10, right, 1.0)
    description = {
        **experiment_of(label, optimizer={"name": "sgd", "lr": rate}, seed=seed),
        "data": {"name": "digits", "seed": seed},
    }
    return stored([record], **{"folder": folder, "label": label, "experiment": description, "seed": seed, **changes})


def test_seeds_belong_together_and_settings_do_not() -> None:
    runs = [
        run(f"{place}/seed-{seed}", 3, rate=rate, seed=seed)
        for place, rate in (("a", 0.1), ("b", 0.2))
        for seed in (0, 1)
    ]
    found = {name: [each.folder.as_posix() for each in some] for name, some in grouped(runs).items()}
    assert found == {
        "fedper optimizer.lr=0.1": ["a/seed-0", "a/seed-1"],
        "fedper optimizer.lr=0.2": ["b/seed-0", "b/seed-1"],
    }


def test_no_run_is_lost() -> None:
    """Two rates under two seeds in one folder, one run twice over, and objects that only their source tells apart."""
    runs = [run("all", 3, rate=rate, seed=seed) for rate in (0.1, 0.2) for seed in (0, 1)]
    runs += [run("again", 4, rate=0.1, seed=0)]
    made = {**experiment_of("mine"), "model": {"name": "make", PYTHON: "one"}}
    other = {**made, "model": {"name": "make", PYTHON: "other"}}
    runs += [run("c", 5, label="mine", experiment=made), run("d", 6, label="mine", experiment=other)]
    found = grouped(runs)
    assert sorted(map(id, (each for some in found.values() for each in some))) == sorted(map(id, runs))
    assert [len(some) for some in found.values()] == [3, 2, 1, 1]
    assert list(found)[2:] == ["mine (1)", "mine (2)"]


def test_a_name_that_looks_like_another_group_hides_nothing() -> None:
    """The first method is called as the second one's group would be."""
    runs = [run("a", 1, label="fedper optimizer.lr=0.2"), run("b", 2, rate=0.2), run("c", 3, rate=0.3)]
    assert sum(len(some) for some in grouped(runs).values()) == 3
    made, other = (experiment_of("mine") | {"model": {"name": "make", PYTHON: each}} for each in "ab")
    numbered = [run("a", 1, label="mine", experiment=made), run("b", 2, label="mine", experiment=other)]
    assert sum(len(some) for some in grouped([*numbered, run("c", 3, label="mine (1)")]).values()) == 3


def test_runs_that_would_hide_each_other_are_refused() -> None:
    """Both are of one method and seed, but their clients are others; the same run twice does no harm."""
    first, second = run("a", 4), run("b", 5, fingerprint="another division")
    assert scores_of([first, run("copy", 4)]) == {"fedper": {(0, 0): 0.4}}
    with pytest.raises(PartitaError, match="b has other scores than another run of the same method and seed 0"):
        scores_of([first, second])


def test_no_setting_hides_another() -> None:
    """Three settings under one seed, in folders of the same name."""
    runs = [run(f"{place}/seed-0", right, rate=right / 10) for place, right in (("a", 1), ("b", 2), ("c", 3))]
    scores = scores_of(runs)
    assert sorted(each[0, 0] for each in scores.values()) == [0.1, 0.2, 0.3]


def test_names_of_different_methods_stay_short() -> None:
    scores = scores_of([run("a", 4, label="fedper"), run("b", 5, label="fedavg"), run("c", 6, label="fedavg", seed=1)])
    assert scores == {"fedper": {(0, 0): 0.4}, "fedavg": {(0, 0): 0.5, (1, 0): 0.6}}


def test_what_cannot_be_compared() -> None:
    with pytest.raises(PartitaError, match="not finished"):
        scores_of([run("a", 4, rounds=2)])
    with pytest.raises(PartitaError, match="different metrics"):
        scores_of([run("a", 4), run("b", 4, metric="RMSE")])
