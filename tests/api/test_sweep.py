"""A sweep tries every point, chooses on validation data alone, and is resumed."""

import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from partita import DivergedError, PartitaError
from partita.api.run import keep_seeds
from partita.api.sweep import Sweep, Tried, points_of, read_grid, sweep
from partita.experiment.settings.files import values_of
from partita.formatting import NONE

Told = Callable[..., str]
SMALL = ("data.split=iid", "data.split.clients=2", "rounds=1")
RATES = "algorithm.optimizer.lr=0.0,0.3"

pytestmark = pytest.mark.usefixtures("own_folder")


def test_the_best_on_validation_data_is_chosen_and_nothing_runs_twice(told: Told) -> None:
    command = ("sweep", *SMALL, "--over", "algorithm=fedavg,fedper", "--over", RATES, "--seeds", "2", "--on", "inline")
    found = json.loads(told(*command, "--json"))
    points = found["points"]
    assert [list(each["settings"].values()) for each in points] == [
        ["fedavg", "0.0"],
        ["fedavg", "0.3"],
        ["fedper", "0.0"],
        ["fedper", "0.3"],
    ]
    assert all(len(each["validation"]) == 2 for each in points)
    best = max(points, key=lambda each: fmean(each["validation"]))
    assert found["chosen"]["settings"] == best["settings"]
    assert best["settings"]["algorithm.optimizer.lr"] == "0.3"
    written = {path: path.stat().st_mtime_ns for path in Path("runs/sweep").rglob("run.sqlite")}
    table = told(*command)
    assert len([line for line in table.splitlines() if line.startswith(("fedavg", "fedper"))]) == 4
    assert table.count("chosen") == 1
    assert {path: path.stat().st_mtime_ns for path in Path("runs/sweep").rglob("run.sqlite")} == written
    latex = told(*command, "--form", "latex")
    assert r"\toprule" in latex
    # One point has a test score, and all others have none: nobody can choose by it.
    assert [line.count(NONE) for line in latex.splitlines() if line.startswith("fed")].count(1) == 3


def test_a_point_that_diverges_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    points = points_of(read_grid([RATES]), Path("runs"), overrides=SMALL)

    def diverge(experiment: Any, folder: Path, *args: Any, **kwargs: Any) -> object:
        if folder == points[1].folder:
            raise DivergedError("nan")
        return keep_seeds(experiment, folder, *args, **kwargs)

    monkeypatch.setattr("partita.api.sweep.keep_seeds", diverge)
    made = sweep(points, on="inline")
    assert made.chosen.point is points[0]
    assert made.table().rows[1][1] == "diverged"
    with pytest.raises(PartitaError, match="Every point"):
        _ = Sweep([Tried(points[1], None)], made.metric).chosen


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ((), "Nothing is swept"),
        (("rounds",), "not of the form"),
        (("rounds=1", "rounds=2"), "swept twice"),
        (("seed=1,2",), "--seeds"),
        (("algorithm.optimizer.lr=0.1,many",), "not a number"),
    ],
)
def test_nonsense_is_refused_before_anything_runs(over: tuple[str, ...], words: str) -> None:
    with pytest.raises(PartitaError, match=words):
        points_of(read_grid(over), Path("runs"), overrides=SMALL)
    assert not Path("runs").exists()


def test_data_without_validation_samples_cannot_choose() -> None:
    with pytest.raises(PartitaError, match="no validation samples"):
        points_of(read_grid([RATES]), Path("runs"), overrides=[*SMALL, "data.validation=0"])


def test_commas_inside_brackets_and_quotes_divide_nothing() -> None:
    assert values_of("'a,b',{ x = 1, y = 2 },3") == ["'a,b'", "{ x = 1, y = 2 }", "3"]
