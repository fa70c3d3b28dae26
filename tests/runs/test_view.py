"""A stored run tells which round is best on validation data, whatever the test data say."""

from pathlib import Path
from typing import Literal

import pytest
from partita.runs.view import View

from partita.evaluation.scores import Record


def run(metric: str, scores: dict[int, tuple[int, int]]) -> View:
    """Rounds with the correct answers (of 10) on validation and test data."""
    roles: tuple[Literal["validation", "test"], ...] = ("validation", "test")
    records = [
        Record(number, 0, "before_local", role, 10, None if metric == "RMSE" else right, float(10 - right))
        for number, both in scores.items()
        for role, right in zip(roles, both, strict=True)
    ]
    about = {"newcomers": [], "model": "before_local", "metric": metric}
    return View(Path("run"), about, [(number, 1.0, 1) for number in scores], records, [], {})


@pytest.mark.parametrize("metric", ["accuracy", "RMSE"])
def test_the_round_is_chosen_on_validation_data_alone(metric: str) -> None:
    view = run(metric, {2: (5, 9), 4: (8, 1), 6: (8, 10), 8: (7, 10)})
    assert view.chosen_round == 4
    assert view.summaries()["before_local"] == view.summaries(8)["before_local"]


@pytest.mark.parametrize("metric", ["accuracy", "RMSE"])
def test_the_best_round_on_test_data_is_told_on_request_alone(metric: str) -> None:
    view = run(metric, {2: (5, 9), 4: (8, 1), 6: (8, 10), 8: (7, 10)})
    assert view.oracle_round == 6
    assert "oracle" not in view.as_dict()
    found = view.as_dict(oracle=True)["oracle"]
    assert found["round"] == 6
    assert found["scores"]["before_local"]["macro"] == (1 if metric == "accuracy" else 0)


def test_nothing_is_chosen_before_anything_is_known() -> None:
    assert run("accuracy", {}).chosen_round is None
    assert run("accuracy", {}).as_dict(oracle=True)["oracle"] == {"round": None, "scores": {}}
