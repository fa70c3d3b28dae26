"""A stored run tells which round is best on validation data, whatever the test data say."""

from typing import Literal

import pytest

from partita.evaluation.scores import Record
from partita.runs.stored import StoredRun
from studies import stored


def run(metric: str, scores: dict[int, tuple[int, int]]) -> StoredRun:
    """Rounds with the correct answers (of 10) on validation and test data."""
    roles: tuple[Literal["validation", "test"], ...] = ("validation", "test")
    records = [
        Record(number, 0, "before_local", role, 10, None if metric == "RMSE" else right, float(10 - right))
        for number, both in scores.items()
        for role, right in zip(roles, both, strict=True)
    ]
    return stored(records, done=list(scores), metric=metric)


@pytest.mark.parametrize("metric", ["accuracy", "RMSE"])
def test_the_round_is_chosen_on_validation_data_alone(metric: str) -> None:
    found = run(metric, {2: (5, 9), 4: (8, 1), 6: (8, 10), 8: (7, 10)})
    assert found.chosen_round == 4
    assert found.summaries()["before_local"] == found.summaries(8)["before_local"]


@pytest.mark.parametrize("metric", ["accuracy", "RMSE"])
def test_the_best_round_on_test_data_is_told_on_request_alone(metric: str) -> None:
    found = run(metric, {2: (5, 9), 4: (8, 1), 6: (8, 10), 8: (7, 10)})
    assert found.oracle_round == 6
    assert "oracle" not in found.as_dict()
    oracle = found.as_dict(oracle=True)["oracle"]
    assert oracle["round"] == 6
    assert oracle["scores"]["before_local"]["macro"] == (1 if metric == "accuracy" else 0)


def test_nothing_is_chosen_before_anything_is_known() -> None:
    assert run("accuracy", {}).chosen_round is None
    assert run("accuracy", {}).as_dict(oracle=True)["oracle"] == {"round": None, "scores": {}}
