"""What is said of scores over clients, against numpy and by hand; all clients are evaluated, in large batches."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from partita.algorithms.fedbabu import fedbabu
from partita.algorithms.fedper import fedper
from partita.core.objectives import Measures, classification
from partita.errors import PartitaError
from partita.evaluation.scores import QUANTILES, Record, quantile, summarize
from partita.experiment.result import Result
from partita.experiment.simulate import simulate
from partita.runs.gains import Beside, gains_over
from partita.runs.stored import StoredRun
from studies import stored
from toys import small_federation, small_network

Counts = list[tuple[int, int]]
POPULATIONS = st.lists(
    st.integers(1, 30).flatmap(lambda count: st.tuples(st.just(count), st.integers(0, count))), min_size=1, max_size=35
)


def records(counts: Sequence[tuple[int, int]], metric: str = "accuracy", round: int = 1) -> list[Record]:
    """Clients of so many samples and correct answers; for regression the latter are the sum of squared errors."""
    return [
        Record(round, client, "before_local", "test", count, right if metric == "accuracy" else None, float(right))
        for client, (count, right) in enumerate(counts)
    ]


def run(found: list[Record], metric: str = "accuracy") -> StoredRun:
    return stored(found, metric=metric)


def test_a_summary_by_hand() -> None:
    """2 of 4, 1 of 1, 0 of 5: micro 3 / 10, macro 1 / 2, and a fourth client without a sample."""
    found = summarize(
        [*records([(4, 2), (1, 1), (5, 0)]), Record(1, 3, "before_local", "test", 0, 0, 0.0)], clients=[2, 7, 8]
    )
    assert (found.micro, found.macro, found.clients, found.left_out) == (0.3, 0.5, 3, 3)
    assert found.std == pytest.approx(math.sqrt(1 / 6))
    assert found.worst_decile == 0
    assert found.quantiles == pytest.approx({10: 0.1, 25: 0.25, 50: 0.5, 75: 0.75, 90: 0.9})


def test_errors_by_hand() -> None:
    """Squared errors 16 of 4 samples and 1 of 1: RMSE 2 and 1, together sqrt(17 / 5); the worst is the largest."""
    found = summarize(records([(4, 16), (1, 1)], "RMSE"))
    assert (found.macro, found.std, found.worst_decile) == (1.5, 0.5, 2)
    assert found.micro == pytest.approx(math.sqrt(17 / 5))
    assert found.quantiles[90] == pytest.approx(1.9)


@pytest.mark.parametrize("right", [0, 1])
def test_one_client_with_one_sample(right: int) -> None:
    found = summarize(records([(1, right)]))
    assert (found.micro, found.macro, found.std, found.worst_decile, found.clients) == (right, right, 0, right, 1)
    assert set(found.quantiles.values()) == {right}


@pytest.mark.parametrize("found", [[], [Record(1, 0, "before_local", "test", 0, None, 0.0)]], ids=["none", "empty"])
def test_nobody_with_samples(found: list[Record]) -> None:
    with pytest.raises(PartitaError, match="no client has samples"):
        summarize(found)


@pytest.mark.parametrize("metric", ["accuracy", "RMSE"])
@given(POPULATIONS)
def test_summaries_agree_with_numpy(metric: str, counts: Counts) -> None:
    found = summarize(records(counts, metric))
    count, right = np.array(counts, dtype=float).T
    each = right / count if metric == "accuracy" else np.sqrt(right / count)
    together = np.average(right / count, weights=count)
    assert found.micro == pytest.approx(together if metric == "accuracy" else np.sqrt(together))
    assert found.macro == pytest.approx(np.mean(each))
    assert found.std == pytest.approx(np.std(each), abs=1e-12)
    assert list(found.quantiles) == list(QUANTILES)
    assert list(found.quantiles.values()) == pytest.approx(np.percentile(each, QUANTILES).tolist())
    fewest = max(int(0.1 * len(each) + 1e-9), 1)
    outermost = np.partition(each, fewest - 1)[:fewest] if metric == "accuracy" else -np.sort(-each)[:fewest]
    assert found.worst_decile == pytest.approx(np.mean(outermost))
    assert found.clients == len(counts)


@pytest.mark.parametrize("metric", ["accuracy", "RMSE"])
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=20))
def test_shares_agree_with_numpy(metric: str, clients: list[tuple[int, int, int]]) -> None:
    """Who is hurt, of clients of the same samples in two runs."""
    count, own, other = np.array(clients).T
    own_run, other_run = (
        run(records(list(zip(count.tolist(), right.tolist(), strict=True)), metric), metric) for right in (own, other)
    )
    found = gains_over(own_run, {"other": Beside(other_run)})["other"]
    worse = own < other if metric == "accuracy" else own > other
    assert list(found.hurt) == np.flatnonzero(worse).tolist()
    assert found.share == pytest.approx(np.mean(worse))


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=12), st.floats(0, 100))
def test_a_quantile_agrees_with_numpy(values: list[float], percent: float) -> None:
    assert quantile(sorted(values), percent) == pytest.approx(np.percentile(values, percent), abs=1e-12)


def small(role: str | None = None, **settings: object) -> Result:
    """Four clients of which one takes part; of the second, perhaps, no samples of a role."""
    data = small_federation()
    if role:
        nothing = torch.zeros(0, dtype=torch.int64)
        roles = [{**each, role: nothing} if at == 1 else each for at, each in enumerate(data.roles)]
        data = replace(data, roles=roles)
    return simulate(fedper(), small_network(), data, rounds=2, participation=0.25, **settings)  # type: ignore[arg-type]


def test_all_clients_are_evaluated_whether_they_take_part_or_not() -> None:
    result = small()
    roles: tuple[Literal["validation", "test"], ...] = ("validation", "test")
    for role in roles:
        assert [record.client for record in result.select(role=role)] == [0, 1, 2, 3]
    assert len(result.select("after_local")) == 1
    tuned = simulate(fedbabu(), small_network(), small_federation(), rounds=1, participation=0.25)
    assert [record.client for record in tuned.select("after_finetune")] == [0, 1, 2, 3]


@pytest.mark.parametrize(("batch", "sizes"), [(512, {4, 6}), (4, {4, 2})])
def test_evaluation_is_in_large_batches(batch: int, sizes: set[int]) -> None:
    """A client's 4 validation and 6 test samples at once, whatever the batches of training.

    After the last round a measure of one's own is asked of each test sample too.
    """
    seen: list[int] = []

    def watched(outputs: Tensor, targets: Tensor) -> Measures:
        seen.append(len(targets))
        return classification(outputs, targets)

    small(evaluation_batch=batch, measure=watched)
    assert set(seen) - {1} == sizes
    assert seen.count(1) == 4 * 6


@pytest.mark.parametrize(("role", "left_out"), [(None, 0), ("test", 1)])
def test_a_client_without_test_samples_is_left_out_and_counted(role: str | None, left_out: int) -> None:
    result = small(role)
    found = result.score()
    assert (found.clients, found.left_out) == (4 - left_out, left_out)
    assert result.score(role="validation").left_out == 0
    kept = stored(list(result.records), done=(2,))
    assert kept.summaries()["before_local"] == found
    # Who did not take part has no model after its training, which is another matter.
    assert kept.summaries()["after_local"].left_out == 0


def test_a_client_without_validation_samples_is_judged_by_its_test_samples() -> None:
    result = small("validation")
    assert (result.score().clients, result.score().left_out) == (4, 0)
    assert (result.score(role="validation").clients, result.score(role="validation").left_out) == (3, 1)


def test_clients_of_one_class_and_of_one_sample() -> None:
    """They train and are judged as others are."""
    data = small_federation((12, 1, 20, 9))
    one_class = data.roles[2]["train"][data.samples.targets[data.roles[2]["train"]] == 0]
    roles = [{**each, "train": one_class} if at == 2 else each for at, each in enumerate(data.roles)]
    roles[3] = {**roles[3], "test": roles[3]["test"][:1]}
    result = simulate(fedper(), small_network(norm=False), replace(data, roles=roles), rounds=2)
    assert [record.count for record in result.select()] == [6, 6, 6, 1]
    assert result.select()[3].score in (0, 1)


def test_gains_are_paired_by_client() -> None:
    """From 1 / 2 to 3 / 4 and from 1 to 1 / 2; the third is in one run alone."""
    own, other = run(records([(4, 3), (2, 1)])), run(records([(4, 2), (2, 2), (5, 1)]))
    found = gains_over(own, {"other": Beside(other)})["other"]
    assert (found.clients, found.gains, found.hurt) == ((0, 1), (0.25, -0.5), (1,))
    assert [own.sample_counts[1][client] for client in found.clients] == [4, 2]
