"""Is one method better than another? Numbers by hand, laws of differences, intervals and corrected p-values."""

import csv
import io
import itertools
import math
from collections.abc import Sequence
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from partita.errors import PartitaError
from partita.evaluation.comparison import Comparison, Difference, Scores, compare
from partita.evaluation.significance import EXACT, holm, paired_test
from partita.report.tables import Form, comparison_text

# Two seeds and two clients: the differences are 0.1 and 0.0 in seed 0, 0.2 and 0.1 in seed 1.
BASE: Scores = {(0, 0): 0.5, (0, 1): 0.7, (1, 0): 0.6, (1, 1): 0.8}
OTHER: Scores = {(0, 0): 0.6, (0, 1): 0.7, (1, 0): 0.8, (1, 1): 0.9}

PAIRS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 6)),
    min_size=1,
    max_size=20,
    unique=True,
)
SHARES = st.integers(0, 40).map(lambda correct: correct / 40)


@st.composite
def two_methods(draw: st.DrawFn) -> tuple[Scores, Scores]:
    """Shares of 40 test samples, at the same pairs of seed and client, some of which may be missing."""
    pairs = draw(PAIRS)
    return {pair: draw(SHARES) for pair in pairs}, {pair: draw(SHARES) for pair in pairs}


def one(comparison: Comparison) -> Difference:
    (difference,) = comparison.differences
    return difference


def alone(*scores: float, seed: int = 0) -> Scores:
    """Clients of one seed."""
    return {(seed, client): score for client, score in enumerate(scores)}


def test_a_method_by_itself() -> None:
    """Clients of the baseline: 0.55 and 0.75; its seeds: 0.6 and 0.7."""
    methods = compare({"base": BASE, "other": OTHER}, baseline="base").methods
    assert [each.method for each in methods] == ["base", "other"]
    assert [each.mean for each in methods] == pytest.approx([0.65, 0.75])
    assert [each.client_spread for each in methods] == pytest.approx([0.1, 0.05])
    assert [each.seed_spread for each in methods] == pytest.approx([0.05, 0.1])
    assert {(each.seeds, each.clients) for each in methods} == {(2, 2)}


def test_the_spread_over_clients_is_that_of_a_seed() -> None:
    """Under each seed clients are 0.2 from their mean; over both seeds each client has the same mean."""
    crossed = {(0, 0): 0.4, (0, 1): 0.8, (1, 0): 0.8, (1, 1): 0.4}
    assert compare({"a": crossed, "b": crossed}, baseline="a").methods[0].client_spread == pytest.approx(0.2)


def test_a_difference() -> None:
    found = one(compare({"base": BASE, "other": OTHER}, baseline="base"))
    assert (found.method, found.seeds, found.clients, found.pairs) == ("other", 2, 2, 4)
    assert found.mean == pytest.approx(0.1)
    assert (found.wins, found.ties, found.losses) == (2, 0, 0)
    assert found.p == found.corrected == pytest.approx(0.5)


@pytest.mark.parametrize(("level", "low", "high"), [(0.95, 0.0, 0.2), (0.8, 0.05, 0.15)])
def test_an_interval(level: float, low: float, high: float) -> None:
    """A draw moves the mean of 0.1 by -0.05, 0 or 0.05 (chances 1, 2, 1 of 4) for seeds, and the same for clients.

    So 0 has a chance of 1 in 16, 0.05 of 4 in 16: the quantile 0.025 is 0, the quantile 0.1 is 0.05.
    """
    found = one(compare({"base": BASE, "other": OTHER}, baseline="base", level=level))
    assert found.interval == pytest.approx((low, high), abs=1e-12)


def test_ties_and_what_is_better() -> None:
    """Differences of 0.3, 0.1, 0, -0.1 and -0.2, of which 0.3 - 0.2 is not quite 0.1."""
    scores = {"base": alone(0.2, 0.2, 0.2, 0.2, 0.2), "other": alone(0.5, 0.3, 0.2, 0.1, 0.0)}

    def counts(tie: float, lower_is_better: bool = False) -> tuple[int, int, int]:
        found = one(compare(scores, baseline="base", tie=tie, lower_is_better=lower_is_better))
        return found.wins, found.ties, found.losses

    assert counts(0.0) == (2, 1, 2)
    assert counts(0.1) == (1, 3, 1)
    assert counts(0.1, lower_is_better=True) == (1, 3, 1)
    assert counts(0.2, lower_is_better=True) == (0, 4, 1)


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        pytest.param([1, 2, 3, -4], 14 / 16, id="of 16 sets of ranks 7 have a sum of at most 4"),
        pytest.param([1, 2, 3, 4, 5, 6], 2 / 64, id="all signs alike"),
        pytest.param([0.1, 0.1, 0.1, 0.1, 0.1, -0.1], 14 / 64, id="all of one size: the sign test"),
        pytest.param([0.3 - 0.2, 0.2 - 0.1, 0.1, 0.1, 0.1, 0.1], 2 / 64, id="of one size but for rounding"),
        pytest.param([0, 0, 0, 1, 2, 3, 4, 5, 6], 2 / 64, id="zeros left out"),
        pytest.param([0.0, 1e-17, -1e-17], 1.0, id="all zero but for rounding"),
        pytest.param([0.5], 1.0, id="one client"),
    ],
)
def test_the_paired_test(differences: list[float], expected: float) -> None:
    assert paired_test(differences) == pytest.approx(expected)


@given(st.lists(st.integers(-9, 9).map(float), min_size=1, max_size=12))
def test_the_paired_test_is_that_of_all_signs(differences: list[float]) -> None:
    """Every choice of signs, with equal sizes and without, and the ranks by scipy."""
    sizes = [abs(each) for each in differences if each]
    ranks = stats.rankdata(sizes)

    def off_centre(signs: Sequence[bool]) -> float:
        return abs(float(ranks[list(signs)].sum() - ranks.sum() / 2))

    seen = off_centre([each > 0 for each in differences if each])
    all_signs = list(itertools.product([False, True], repeat=len(sizes)))
    expected = sum(off_centre(signs) >= seen for signs in all_signs) / len(all_signs)
    assert paired_test(differences) == pytest.approx(expected)


@pytest.mark.parametrize("clients", [10, EXACT, EXACT + 1, 400])
@pytest.mark.parametrize("mean", [0.0, 0.15, -0.3])
def test_the_paired_test_against_scipy(clients: int, mean: float) -> None:
    drawn = np.random.default_rng(clients).normal(mean, 1, clients)
    method = "exact" if clients <= EXACT else "asymptotic"
    assert paired_test(drawn) == pytest.approx(stats.wilcoxon(drawn, method=method).pvalue, rel=1e-6)


def test_the_normal_distribution_of_many_equal_ranks() -> None:
    """Ranks shared by most differences: scipy corrects the spread for them too."""
    drawn = np.random.default_rng(0).integers(-2, 4, 300).astype(np.float64)
    expected = stats.wilcoxon(drawn[drawn != 0], method="asymptotic").pvalue
    assert paired_test(drawn) == pytest.approx(expected, rel=1e-6)


def test_where_the_normal_distribution_begins() -> None:
    """One difference more than the exact test takes: both p-values are close."""
    drawn = np.random.default_rng(1).normal(0.2, 1, EXACT + 1)
    assert paired_test(drawn) == pytest.approx(stats.wilcoxon(drawn, method="exact").pvalue, abs=1e-3)


def test_holm_by_hand() -> None:
    """0.01 x 3, 0.03 x 2, and 0.04 x 1, which is raised to that before it."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
    assert holm([0.7, 0.6]) == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_keeps_the_order_and_never_lowers(values: list[float]) -> None:
    corrected = holm(values)
    assert all(raw <= after <= 1 for raw, after in zip(values, corrected, strict=True))
    in_order = [corrected[place] for place in np.argsort(values, kind="stable")]
    assert in_order == sorted(in_order)


@given(two_methods())
@settings(max_examples=60)
def test_swapping_two_methods_turns_the_difference_around(scores: tuple[Scores, Scores]) -> None:
    both = dict(zip(("one", "other"), scores, strict=True))
    there = one(compare(both, baseline="one", resamples=200))
    back = one(compare(both, baseline="other", resamples=200))
    assert there.mean == pytest.approx(-back.mean)
    assert (there.wins, there.ties, there.losses) == (back.losses, back.ties, back.wins)
    assert there.p == pytest.approx(back.p)
    assert (there.interval is None) == (back.interval is None) == (there.pairs == 1)
    if there.interval and back.interval:
        assert there.interval == pytest.approx((-back.interval[1], -back.interval[0]))


@given(two_methods())
@settings(max_examples=60)
def test_an_interval_holds_the_difference(scores: tuple[Scores, Scores]) -> None:
    found = one(compare({"one": scores[0], "other": scores[1]}, baseline="one", resamples=500))
    if found.interval:
        assert found.interval[0] - 1e-12 <= found.mean <= found.interval[1] + 1e-12


@given(two_methods(), st.floats(-2, 2), st.floats(0.1, 10))
@settings(max_examples=30)
def test_shift_and_scale(scores: tuple[Scores, Scores], shift: float, scale: float) -> None:
    """A difference does not know where scores begin, and grows with their unit."""
    moved = [{pair: scale * value + shift for pair, value in each.items()} for each in scores]
    plain, after = (
        one(compare(dict(zip("ab", each, strict=True)), baseline="a", resamples=100)) for each in (scores, moved)
    )
    assert after.mean == pytest.approx(scale * plain.mean, abs=1e-9)
    assert (after.wins, after.ties, after.losses) == (plain.wins, plain.ties, plain.losses)
    if plain.interval:
        assert after.interval == pytest.approx([scale * end for end in plain.interval], abs=1e-9)


def simulated(draw: np.random.Generator, seeds: int, clients: int, effect: float) -> Scores:
    """A true difference, and what seeds, clients and each pair add to it."""
    shape = (seeds, clients)
    values = effect + 0.02 * draw.normal(size=(seeds, 1)) + 0.03 * draw.normal(size=clients)
    values = values + 0.02 * draw.normal(size=shape)
    return {(int(seed), int(client)): float(values[seed, client]) for seed, client in np.ndindex(*shape)}


def test_an_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    draw = np.random.default_rng(5)
    pairs = simulated(draw, 10, 20, 0)
    covered = 0
    for _ in range(150):
        scores = {"base": dict.fromkeys(pairs, 0.0), "other": simulated(draw, 10, 20, 0.1)}
        low, high = one(compare(scores, baseline="base", level=0.9, resamples=300)).interval or (0, 0)
        covered += low <= 0.1 <= high
    assert 0.82 <= covered / 150 <= 0.97


def test_an_interval_over_seeds_and_clients_is_longer_than_over_clients_alone() -> None:
    """Another spread of the same size in seeds adds to that of clients; only redrawn seeds show it."""
    pairs = [(seed, client) for seed in range(6) for client in range(6)]
    base: Scores = dict.fromkeys(pairs, 0.0)

    def length(other: Scores) -> float:
        low, high = one(compare({"base": base, "other": other}, baseline="base")).interval or (0, 0)
        return high - low

    by_clients = length({pair: float(pair[1]) for pair in pairs})
    by_both = length({pair: float(pair[0] + pair[1]) for pair in pairs})
    assert by_both / by_clients == pytest.approx(math.sqrt(2), abs=0.1)


def test_the_same_seed_gives_the_same_interval() -> None:
    draw = np.random.default_rng(0)
    scores = {"base": simulated(draw, 4, 9, 0), "other": simulated(draw, 4, 9, 0)}
    first, again, another = (compare(scores, baseline="base", seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first != another


def test_missing_pairs_are_left_out_of_the_difference() -> None:
    """Seed 1 of client 1 is missing; 0.1, 0 and 0.2 are left, and clients' means of 0.15 and 0."""
    fewer = {pair: score for pair, score in OTHER.items() if pair != (1, 1)}
    comparison = compare({"base": BASE, "other": fewer}, baseline="base")
    found = one(comparison)
    assert found.pairs == 3
    assert found.mean == pytest.approx(0.1)
    assert (found.wins, found.ties, found.losses) == (1, 1, 0)
    assert "other: compared on 3 pairs of seed and client; it has 3, base has 4" in comparison.notes


def test_small_samples_are_named() -> None:
    clients = range(8)
    one_seed = compare({"a": alone(*clients), "b": alone(*clients)}, baseline="a")
    assert one_seed.notes == ("one seed: the interval is over clients alone",)
    assert one_seed.methods[0].seed_spread is None
    single = compare({"a": alone(0.1), "b": alone(0.2)}, baseline="a")
    assert one(single).interval is None
    assert single.notes == ("one seed and one client: there is no interval", "one client: p cannot be below 1")
    many: Scores = {(seed, 0): seed / 10 for seed in range(5)}
    assert compare({"a": many, "b": many}, baseline="a").notes[0] == "one client: the interval is over seeds alone"
    few = compare({"a": BASE, "b": OTHER}, baseline="a").notes
    assert [note.partition(":")[0] for note in few] == ["2 seeds", "2 clients"]


def test_a_correction_can_make_a_finding_impossible() -> None:
    """With 7 clients 2 / 128 is reached; times four methods it is above 0.05."""
    scores = {name: alone(*range(7)) for name in "abcde"}
    notes = compare(scores, baseline="a").notes
    assert "7 clients: p cannot be below 0.0156, 0.0625 after the correction for 4 methods" in notes
    assert not any("p cannot" in note for note in compare({n: scores[n] for n in "ab"}, baseline="a").notes)


def test_a_note_names_those_whom_it_concerns() -> None:
    large: Scores = {(seed, client): 0.5 for seed in range(5) for client in range(8)}
    notes = compare({"a": large, "b": large, "c": alone(*[0.5] * 8)}, baseline="a").notes
    assert notes[0] == "c: one seed: the interval is over clients alone"


def test_a_baseline_alone() -> None:
    comparison = compare({"base": BASE}, baseline="base")
    assert not comparison.differences
    assert not comparison.notes
    for form in get_args(Form):
        assert "base" in comparison_text(comparison, form)


@pytest.mark.parametrize(
    ("scores", "settings", "message"),
    [
        ({"a": BASE}, {"baseline": "b"}, "Unknown method 'b'"),
        ({"a": BASE, "b": {}}, {}, "'b' has no scores"),
        ({"a": BASE, "b": {(0, 3): math.nan}}, {}, "'b' is nan for client 3 and seed 0"),
        ({"a": BASE, "b": alone(0.5, seed=7)}, {}, "'b' has seeds 7 with clients 0; 'a' has seeds 0, 1"),
        ({"a": BASE}, {"level": 95}, "level is 95"),
        ({"a": BASE}, {"resamples": 0}, "resamples is 0, but must be at least 1"),
        ({"a": BASE}, {"tie": -0.1}, "tie is -0.1, but must be at least 0"),
    ],
)
def test_what_cannot_be_compared(scores: dict[str, Scores], settings: dict[str, object], message: str) -> None:
    with pytest.raises(PartitaError, match=message):
        compare(scores, **{"baseline": "a", **settings})  # type: ignore[arg-type]


NAMED = compare({"base": BASE, "a_b|c": OTHER}, baseline="base")


def test_a_table_for_the_terminal() -> None:
    titles, first, second, empty, *remarks = comparison_text(NAMED, "terminal").splitlines()
    assert len(titles) == len(first) == len(second)
    assert first.split() == ["base", "0.6500", "±", "0.1000", "0.0500", *"----"]
    cells = ["0.7500", "±", "0.0500", "0.1000", "+0.1000", "[+0.0000,", "+0.2000]", "0.500", "0.500", "2/0/0"]
    assert second.split()[1:] == cells
    assert not empty
    assert remarks[0].startswith("Difference: the method less base, with a 95 % interval; more is better.")
    assert remarks[1:] == list(NAMED.notes)


def test_a_table_in_percent() -> None:
    assert "65.00 ± 10.00" in comparison_text(NAMED, "terminal", percent=True)
    assert "Scores in percent." in comparison_text(NAMED, "terminal", percent=True)


def test_a_table_as_csv() -> None:
    first, second = csv.DictReader(io.StringIO(comparison_text(NAMED, "csv")))
    assert (first["method"], first["difference"], first["p"]) == ("base", "", "")
    assert second["method"] == "a_b|c"
    assert float(second["mean"]) == NAMED.methods[1].mean
    assert float(second["difference"]) == one(NAMED).mean
    assert (float(second["low"]), float(second["high"])) == one(NAMED).interval
    assert [second[name] for name in ("wins", "ties", "losses", "seeds", "clients", "pairs")] == list("200224")


def test_a_table_as_markdown() -> None:
    titles, rule, *rows = comparison_text(NAMED, "markdown").splitlines()[:4]
    assert titles.startswith("| method | mean ± over clients |")
    assert rule == "| --- |" + " ---: |" * 6
    assert rows[1].startswith(r"| a\_b\|c | 0.7500 ± 0.0500 |")
    assert "- 2 clients: p cannot be below 0.5" in comparison_text(NAMED, "markdown")


def test_a_table_as_latex() -> None:
    names = {"base": BASE, "50%_of #1 & {x}~^\\": OTHER, "[a": dict.fromkeys(BASE, 0.0)}
    lines = comparison_text(compare(names, baseline="base"), "latex").splitlines()
    rows = [line for line in lines if line.endswith(r"\\")]
    assert rows[2].startswith(r"50\%\_of \#1 \& \{x\}\textasciitilde{}\textasciicircum{}\textbackslash{} & 0.75")
    assert r"0.7500 $\pm$ 0.0500 & 0.1000 & $+$0.1000 [" in rows[2]
    assert rows[3].startswith("{}[a & 0.0000")
    assert "$-$0.6500 [" in rows[3]
    assert all(row.count(" & ") == 6 for row in rows)
    assert lines[0].startswith("% Difference")
    assert lines[-1] == r"\end{tabular}"


def test_an_unknown_form() -> None:
    with pytest.raises(PartitaError, match="Did you mean 'latex'"):
        comparison_text(NAMED, "latexx")  # type: ignore[arg-type]
