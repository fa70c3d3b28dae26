"""What a method gains for each client: paired, signed so that more is better, by size, rank and density."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from partita.errors import PartitaError
from partita.evaluation.density import density
from partita.evaluation.gains import Gain, by_rank, gain
from partita.evaluation.metric import Metric
from partita.evaluation.scores import Record
from partita.evaluation.variants import Variant
from partita.experiment.traffic import Traffic
from partita.runs.gains import Beside, gains_over
from partita.runs.stored import StoredRun
from partita.runs.target import Spent, reached
from studies import held, stored


def run(
    right: dict[int, int], metric: str = "accuracy", variant: Variant = "before_local", **changes: Any
) -> StoredRun:
    """Clients with so many right of 10 test samples (or that sum of squared errors), and 4 validation samples."""
    found = [
        record
        for client, value in right.items()
        for record in (
            Record(2, client, variant, "validation", 4, None if metric == "RMSE" else 4, 4.0),
            Record(1, client, variant, "test", 10, None if metric == "RMSE" else 0, 0.0),
            Record(2, client, variant, "test", 10, None if metric == "RMSE" else value, float(value)),
        )
    ]
    return stored(found, done=(1, 2), **{"metric": metric, "variant": variant, **changes})


def gain_between(own: StoredRun, other: StoredRun, variant: Variant | None = None) -> Gain:
    return gains_over(own, {"other": Beside(other, variant)})["other"]


def test_gains_by_hand() -> None:
    own = run({0: 7, 1: 5, 2: 9})
    found = gain_between(own, run({0: 5, 1: 8, 3: 1}))
    assert [(client, own.sample_counts[1][client]) for client in found.clients] == [(0, 14), (1, 14)]
    assert found.gains == pytest.approx([0.2, -0.3])
    assert found.hurt == (1,)
    assert (found.mean, found.share) == pytest.approx((-0.05, 0.5))


def test_a_smaller_error_is_better() -> None:
    """RMSE 2 instead of 3 is 1 better."""
    found = gain_between(run({0: 40}, "RMSE"), run({0: 90}, "RMSE"))
    assert (found.clients, found.gains, found.hurt) == ((0,), (1.0,), ())


def test_newcomers_and_other_variants_are_left_out() -> None:
    own = run({0: 7, 1: 5}, newcomers=[1])
    assert own.scores() == {0: 0.7}
    tuned = run({0: 9, 1: 9}, variant="after_finetune")
    both = replace(own, numbers=held("both", [*own.records, *tuned.records]))
    assert both.scores() == {0: 0.7}
    found = gain_between(own, both, "after_finetune")
    assert found.clients == (0,)
    assert found.gains == pytest.approx((-0.2,))


@pytest.mark.parametrize(("key", "value", "message"), [("metric", "RMSE", "metrics"), ("fingerprint", "x", "clients")])
def test_runs_that_cannot_be_paired(key: str, value: str, message: str) -> None:
    changed: dict[str, Any] = {key: value}
    with pytest.raises(PartitaError, match=message):
        gain_between(run({0: 1}), run({0: 1}, **changed))


def test_sizes_are_of_training_data_where_labels_are_known() -> None:
    found = run({0: 7, 3: 5})
    assert found.sample_counts == ("held out", {0: 14, 3: 14})
    labels = {"clients": [0, 3], "train": [[5, 2], [0, 30]]}
    assert replace(found, analyses={"labels": labels}).sample_counts == ("training", {0: 7, 3: 30})
    some = {"clients": [0], "train": [[5, 2]]}
    assert replace(found, analyses={"labels": some}).sample_counts[0] == "held out"


def over_nothing(**gains: float) -> Gain:
    """Gains of clients c7, c2 and so on over a reference whose scores are 0."""
    own = {int(name[1:]): value for name, value in gains.items()}
    return gain("nothing", own, dict.fromkeys(own, 0.0), Metric("accuracy"))


def test_ranks_by_hand() -> None:
    """Client 7 has 0.1 and 0.3, client 2 has -0.2 and 0; client 5 is in one run alone."""
    found = by_rank([over_nothing(c7=0.1, c2=-0.2, c5=0.9), over_nothing(c2=0.0, c7=0.3)])
    assert [each.client for each in found] == [2, 7]
    assert [each.mean for each in found] == pytest.approx([-0.1, 0.2])
    assert [each.std for each in found] == pytest.approx([0.1, 0.1])
    assert [(each.low, each.high) for each in found] == [(-0.2, 0.0), (0.1, 0.3)]
    assert by_rank([]) == []


def test_a_density_by_hand() -> None:
    """Of 0 and 1 the deviation is sqrt(1 / 2), the width that by 2^(1/5), and both ends have the same density."""
    found = density([1.0, 0.0], points=3)
    assert (found.low, found.lower_quartile, found.median, found.upper_quartile, found.high) == (0, 0.25, 0.5, 0.75, 1)
    assert found.at == [0, 0.5, 1]
    # With a width of 0.61557: (1 + e^-1.31951) / 3.08602 at the ends, 2 e^-0.32988 / 3.08602 in the middle.
    assert found.density == pytest.approx([0.41065, 0.46598, 0.41065], abs=5e-6)


@given(st.lists(st.integers(-20, 20), min_size=2, max_size=20).filter(lambda values: len(set(values)) > 1))
def test_densities_agree_with_numpy(values: list[int]) -> None:
    """Each point's density is the mean of normal densities around the values."""
    found = density([float(value) for value in values], points=7)
    each = np.array(values, dtype=float)
    width = each.std(ddof=1) / len(each) ** 0.2
    at = np.linspace(each.min(), each.max(), 7)
    normal = np.exp(-(((at[:, None] - each) / width) ** 2) / 2) / (width * np.sqrt(2 * np.pi))
    assert found.at == pytest.approx(at.tolist())
    assert found.density == pytest.approx(normal.mean(1).tolist())
    assert [found.lower_quartile, found.median] == pytest.approx(np.percentile(each, [25, 50]).tolist())


def test_a_density_of_equal_numbers_and_of_none() -> None:
    found = density([0.5, 0.5])
    assert (found.low, found.median, found.high, found.at, found.density) == (0.5, 0.5, 0.5, [0.5], [1.0])
    with pytest.raises(PartitaError, match="at least one"):
        density([])


def course(metric: str = "accuracy") -> StoredRun:
    """Evaluated after rounds 2 and 4 of 4, with 3 and 8 right of 10 (or 9 and 4 of error), 2 s and 30 bytes each."""
    sums = {2: 3, 4: 8} if metric == "accuracy" else {2: 90, 4: 40}
    records = [
        Record(at, 0, "before_local", "test", 10, None if metric == "RMSE" else value, float(value))
        for at, value in sums.items()
    ]
    traffic = [Traffic(at, client, "body", 10, 5) for at in (1, 2, 3, 4) for client in (0, 1)]
    made = stored(records, metric=metric, traffic=traffic)
    return replace(made, rounds=[(at, 2.0, 2) for at in (1, 2, 3, 4)])


@pytest.mark.parametrize(
    ("metric", "target", "expected"),
    [
        ("accuracy", 0.3, Spent(2, 4.0, 60)),
        ("accuracy", 0.31, Spent(4, 8.0, 120)),
        ("accuracy", 0.9, None),
        ("RMSE", 3.0, Spent(2, 4.0, 60)),
        ("RMSE", 2.5, Spent(4, 8.0, 120)),
        ("RMSE", 1.0, None),
    ],
)
def test_a_target(metric: str, target: float, expected: Spent | None) -> None:
    assert reached(course(metric), target) == expected


def test_a_target_in_percent() -> None:
    with pytest.raises(PartitaError, match=r"such as 0\.9"):
        reached(course(), 90)
