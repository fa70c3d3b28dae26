"""What became of each test sample, and intervals of gains in pairs of answers: by hand, and against scipy."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from scipy import stats

from partita.core.objectives import (
    SPECIAL,
    Measure,
    Measures,
    classification,
    next_word,
    outcome_of,
    regression,
)
from partita.evaluation.gains import by_client, gain
from partita.evaluation.intervals import (
    Interval,
    exact_test,
    over_seeds,
    paired_errors,
    paired_ratios,
    paired_shares,
    student_quantile,
    unpaired_shares,
)
from partita.evaluation.metric import Metric
from partita.evaluation.outcomes import Outcomes, outcomes_of, paired_interval


def own_measure(outputs: torch.Tensor, targets: torch.Tensor) -> Measures:
    """One that the package does not know."""
    return classification(outputs, targets)


DRAW = torch.Generator().manual_seed(0)
CASES: dict[str, tuple[Measure, torch.Tensor, torch.Tensor]] = {
    "classification": (classification, torch.randn(7, 3, generator=DRAW), torch.randint(3, (7,), generator=DRAW)),
    "a user's own": (own_measure, torch.randn(7, 3, generator=DRAW), torch.randint(3, (7,), generator=DRAW)),
    "regression": (regression, torch.randn(7, 1, generator=DRAW), torch.randn(7, generator=DRAW)),
    "several numbers": (regression, torch.randn(7, 2, generator=DRAW), torch.randn(7, 2, generator=DRAW)),
    "words": (
        next_word,
        torch.randn(5, 6, SPECIAL + 3, generator=DRAW),
        torch.randint(SPECIAL + 3, (5, 6), generator=DRAW),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_outcomes_are_what_the_measure_says_of_each_sample(case: str) -> None:
    measure, outputs, targets = CASES[case]
    counts, values = outcome_of(measure, outputs, targets)
    for at in range(len(targets)):
        alone = measure(outputs[at : at + 1], targets[at : at + 1])
        assert counts[at] == alone["count"]
        assert float(values[at]) == pytest.approx(alone.get("correct", alone["loss"]), rel=1e-5)


def outcomes(values: list[float], counts: list[float] | None = None, metric: str = "accuracy") -> Outcomes:
    given = torch.tensor(counts or [1.0] * len(values)), torch.tensor(values)
    # In two batches, as evaluation makes them.
    batches = [tuple(each[:3] for each in given), tuple(each[3:] for each in given)]
    found = outcomes_of([(one, other) for one, other in batches], 2, 5, "before_local", metric)
    assert found
    assert (found.round, found.client, found.variant, found.samples) == (2, 5, "before_local", len(values))
    return found


@given(st.lists(st.booleans(), min_size=1, max_size=40))
def test_answers_are_kept_as_bits(right: list[bool]) -> None:
    found = outcomes([float(each) for each in right])
    assert found.form == "answers"
    assert len(found.values) <= 4 * math.ceil(math.ceil(len(right) / 8) / 3)
    counts, values = found.numbers
    assert (counts, values) == ([1.0] * len(right), [float(each) for each in right])


def test_words_and_errors_are_kept_as_numbers() -> None:
    words = outcomes([1.0, 0.0, 3.0, 2.0], [2.0, 1.0, 4.0, 2.0])
    assert words.form == "counted"
    assert list(words.numbers) == [[2.0, 1.0, 4.0, 2.0], [1.0, 0.0, 3.0, 2.0]]
    errors = outcomes([0.25, 4.0, 1.5, 0.0], metric="RMSE")
    assert errors.form == "errors"
    assert list(errors.numbers) == [[1.0] * 4, [0.25, 4.0, 1.5, 0.0]]


def test_an_interval_needs_the_same_samples() -> None:
    one = outcomes([1.0, 0.0, 1.0, 1.0])
    assert paired_interval(one, outcomes([1.0, 0.0, 1.0])) is None
    assert paired_interval(one, outcomes([1.0, 0.0, 1.0, 1.0], metric="RMSE")) is None
    words, others = outcomes([1.0, 2.0], [2.0, 2.0]), outcomes([1.0, 2.0], [2.0, 3.0])
    assert paired_interval(words, others) is None
    assert paired_interval(words, words) == (0.0, 0.0)


def test_shares_by_hand() -> None:
    """20 samples; the first has 1 right that the second has not, the second 9 that the first has not.

    (2 - 10) / 22 = -0.36364, and 1.96 sqrt((12 / 22 - 0.13223) / 22) = 0.26861.
    """
    assert paired_shares(1, 9, 20) == pytest.approx((-0.63225, -0.09502), abs=1e-5)
    one = outcomes([1.0] + [0.0] * 9 + [1.0] * 10)
    other = outcomes([0.0] + [1.0] * 9 + [1.0] * 10)
    assert paired_interval(one, other) == pytest.approx((-0.63225, -0.09502), abs=1e-5)


@pytest.mark.parametrize("count", [1, 2, 4, 5, 6, 10, 25])
def test_shares_hold_their_difference_and_are_sure_only_with_the_exact_test(count: int) -> None:
    for better in range(count + 1):
        for worse in range(count + 1 - better):
            low, high = paired_shares(better, worse, count)
            assert -1 <= low <= (better - worse) / count <= high <= 1
            assert (low, high) == pytest.approx(tuple(-end for end in reversed(paired_shares(worse, better, count))))
            exact = float(stats.binomtest(better, better + worse).pvalue) if better + worse else 1.0
            assert exact_test(better, worse) == pytest.approx(exact)
            if not low <= 0 <= high:
                assert exact < 0.05


def test_pairs_are_surer_than_totals() -> None:
    """60 of 100 against 70: the ten are lost by samples that both others have in common."""
    assert paired_shares(0, 10, 100)[1] < 0 < unpaired_shares(0.6, 0.7, 100)[1]


@pytest.mark.parametrize("freedom", [1, 2, 9, 10, 11, 15, 40, 1000])
def test_quantiles_are_students(freedom: int) -> None:
    assert student_quantile(freedom) == pytest.approx(float(stats.t.ppf(0.975, freedom)), rel=2e-5)


def test_words_of_sentences_by_hand() -> None:
    """Differences 1, 0, -1 of 2, 2, 4 words: the gain is 0, its parts are 3 / 8 of them, and t(2) is 4.30265."""
    half = 4.30265 * (3 / 8) / math.sqrt(3)
    assert paired_ratios([2.0, 2.0, 4.0], [1.0, 0.0, -1.0]) == pytest.approx((-half, half), rel=1e-5)
    same = paired_ratios([1.0] * 12, [1.0] * 3 + [0.0] * 9)
    usual = stats.ttest_1samp([1.0] * 3 + [0.0] * 9, 0).confidence_interval()
    assert same == pytest.approx((usual.low, usual.high), abs=1e-5)
    assert paired_ratios([1.0], [1.0]) is None


def test_errors_by_hand() -> None:
    """Squared errors 1, 9 and 4, 16: RMSE sqrt(5) and sqrt(10); parts 4 / 2 sqrt(10) - 1 / 2 sqrt(5) and so on."""
    own, other = [1.0, 9.0], [4.0, 16.0]
    change = math.sqrt(10) - math.sqrt(5)
    parts = [4 / (2 * math.sqrt(10)) - 1 / (2 * math.sqrt(5)), 16 / (2 * math.sqrt(10)) - 9 / (2 * math.sqrt(5))]
    half = 12.706205 * abs(parts[1] - parts[0]) / 2
    assert paired_errors(own, other) == pytest.approx((change - half, change + half), rel=1e-5)
    assert paired_errors(own[:1], other[:1]) is None
    assert paired_errors([0.0] * 3, [0.0] * 3) == (0.0, 0.0)
    low, high = paired_errors([0.0] * 30, [1.0] * 30) or (0.0, 0.0)
    assert (low, high) == pytest.approx((1.0, 1.0))


def test_the_interval_of_errors_holds_what_it_should() -> None:
    """Of 400 draws of 60 samples from two errors whose RMSE differ by 0.2, nearly 95 % hold that."""
    draw = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        common = draw.normal(size=60)
        own, other = common**2, (common + draw.normal(scale=math.sqrt(0.44), size=60)) ** 2
        low, high = paired_errors(own.tolist(), other.tolist()) or (0.0, 0.0)
        held += low <= 0.2 <= high
    assert 0.90 <= held / 400 <= 0.99


def test_over_seeds_by_hand() -> None:
    """Half widths 0.1 and 0.3 of samples: root of 0.05. Gains 0.1 and 0.3 of seeds: 12.7062 * 0.1."""
    found = over_seeds([0.1, 0.3], [(0.0, 0.2), (0.0, 0.6)])
    half = math.hypot(math.sqrt(0.05), 1.2706205)
    assert found == pytest.approx((0.2 - half, 0.2 + half))
    assert over_seeds([0.1], [(0.0, 0.2)]) == (0.0, 0.2)
    assert over_seeds([0.1, 0.3], [(0.0, 0.2)]) is None
    assert over_seeds([0.1], []) is None


def test_a_client_over_seeds() -> None:
    """Client 0 loses under each of three seeds alike; client 1 under one of them; client 2 never."""
    several = []
    for seed in range(3):
        own = {0: 0.5, 1: 0.4 if seed == 0 else 0.7, 2: 0.9}
        paired: dict[int, Interval] = {0: (-0.3, -0.1), 1: (-0.3, 0.1) if seed == 0 else (0.0, 0.2), 2: (0.1, 0.5)}
        several.append(gain("other", own, {0: 0.7, 1: 0.6, 2: 0.6}, Metric("accuracy"), None, paired))
    assert all(each.paired for each in several)
    assert [each.verdict(0) for each in several] == ["surely"] * 3
    assert several[0].verdict(1) == "perhaps"
    found = by_client(several)
    assert {client: each.verdict for client, each in found.items()} == {0: "surely", 1: "not", 2: "not"}
    assert found[0].interval == pytest.approx((-0.3, -0.1))
    assert found[1].mean == pytest.approx(0.0)


def test_gains_without_pairs_say_so() -> None:
    mixed = gain("other", {0: 0.5, 1: 0.5}, {0: 0.7, 1: 0.7}, Metric("accuracy"), {0: 10, 1: 10}, {0: (-0.3, -0.1)})
    assert not mixed.paired
    assert mixed.intervals[1] == unpaired_shares(0.5, 0.7, 10)
