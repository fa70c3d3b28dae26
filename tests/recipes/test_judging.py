"""Numbers and claims are judged by their intervals: by hand, in pairs, and never better than the data allow."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from partita.errors import PartitaError
from partita.recipes.judge import Verdict, judge_claims, judge_numbers
from partita.recipes.measure import Found
from partita.recipes.pictures import pictures
from partita.recipes.recipe import Claim, Number, Picture, Recipe
from partita.recipes.result import Course, RecipeResult, RunResult, read_results, write_result
from partita.recipes.runner import gathered_result

AROUND = (-0.02, -0.01, 0.01, 0.02)


def recipe(**changes: Any) -> Recipe:
    numbers = (
        Number("low", run="low", published=50.0, where="Table 1"),
        Number("high", run="high", published=70.0, where="Table 1"),
    )
    made = Recipe(
        "made", "a title", "partita", "Table 1", "published", 1, runs={"low": {}, "high": {}}, numbers=numbers
    )
    return replace(made, **{"claims": (Claim("C1", "high is above low.", ("high",), ("low",), by=15.0),), **changes})


def run(values: Sequence[float], **changes: Any) -> RunResult:
    """Two seeds with the same scores."""
    made = RunResult(
        settings={},
        rounds=1,
        metric="accuracy",
        variant="before_local",
        fingerprint="data",
        seconds=1.0,
        clients=["a", "b", "c", "d"][: len(values)],
        samples=[10, 20, 30, 40][: len(values)],
        sizes=[10, 20, 30, 40][: len(values)],
        scores={"before_local": {"0": list(values), "1": list(values)}},
    )
    return replace(made, **changes)


def result(low: float, high: float, **changes: Any) -> RecipeResult:
    """Four clients, whose scores are around the given means."""
    runs = {"low": run([low + each for each in AROUND]), "high": run([high + each for each in AROUND])}
    environment = {"packages": {"torch": "2"}, "cores": 2, "machine": "x86_64"}
    return replace(RecipeResult("made", "full", "command", environment, runs), **changes)


@pytest.mark.parametrize(
    ("low", "high", "numbers", "claim"),
    [
        (0.50, 0.70, [Verdict.REPRODUCED, Verdict.REPRODUCED], Verdict.REPRODUCED),
        (0.60, 0.70, [Verdict.ORDERING, Verdict.REPRODUCED], Verdict.ORDERING),
        (0.70, 0.50, [Verdict.NOT, Verdict.NOT], Verdict.NOT),
        (0.60, 0.60, [Verdict.UNDECIDED, Verdict.UNDECIDED], Verdict.UNDECIDED),
    ],
)
def test_verdicts_follow_the_intervals(low: float, high: float, numbers: list[Verdict], claim: Verdict) -> None:
    found = result(low, high)
    assert [each.verdict for each in judge_numbers(recipe(), found)] == numbers
    assert [each.verdict for each in judge_claims(recipe(), found)] == [claim]


@pytest.mark.parametrize("changes", [{"size": "small"}, {}])
def test_another_protocol_reproduces_an_ordering_at_most(changes: Mapping[str, Any]) -> None:
    given = recipe() if changes else recipe(protocol="reduced")
    found = result(0.5, 0.7, **changes)
    assert {each.verdict for each in judge_numbers(given, found)} == {Verdict.ORDERING}
    assert [each.verdict for each in judge_claims(given, found)] == [Verdict.ORDERING]


def test_a_claim_of_no_great_loss_is_about_its_bound() -> None:
    claim = Claim("C1", "low loses at most 3 points.", ("low",), ("high",), by=-3.0)
    for low, verdict in ((0.68, Verdict.ORDERING), (0.60, Verdict.NOT)):
        judged = judge_claims(recipe(claims=(claim,)), result(low, 0.70, size="small"))
        assert [each.verdict for each in judged] == [verdict]


@pytest.mark.parametrize(("within", "verdict"), [(0.05, Verdict.ORDERING), (0.01, Verdict.NOT)])
def test_a_loss_may_be_claimed_as_a_share(within: float, verdict: Verdict) -> None:
    """Of 70 points, 2 are 2.9 %."""
    claim = Claim("C1", "low loses little.", ("low",), ("high",), within=within)
    assert judge_claims(recipe(claims=(claim,)), result(0.68, 0.70, size="small"))[0].verdict is verdict


def test_without_a_result_nothing_is_reproduced() -> None:
    assert {each.verdict for each in judge_numbers(recipe(), None)} == {Verdict.NOT_RUN}
    assert {each.verdict for each in judge_claims(recipe(), None)} == {Verdict.NOT_RUN}
    lacking = result(0.5, 0.7, runs={"low": run(AROUND)})
    assert "no run high" in judge_claims(recipe(), lacking)[0].reason


def test_an_invalid_target_is_never_reproduced() -> None:
    numbers = tuple(replace(each, invalid="not what it is called") for each in recipe().numbers)
    judged = judge_numbers(recipe(numbers=numbers), result(0.5, 0.7))
    assert {each.verdict for each in judged} == {Verdict.INVALID}


def test_numbers_that_the_paper_cannot_tell_apart_are_not_compared() -> None:
    """Their spreads over four clients are wider than their difference."""
    numbers = tuple(replace(each, spread=20.0, spread_of=4) for each in recipe().numbers)
    judged = judge_numbers(recipe(numbers=numbers), result(0.7, 0.5, size="small"))
    assert {each.reason for each in judged} == {"nothing to compare its place with"}


def value(number: Number, *others: Number, **runs: RunResult) -> float:
    given = recipe(numbers=(number, *others), runs={name: {} for name in runs}, claims=())
    scores = Found(given, replace(result(0.5, 0.7), runs=runs)).scores(number)
    assert scores is not None
    return scores.value


SCORES = (0.2, 0.4, 0.6, 0.9)
COURSE = Course(
    rounds=[2, 4, 6],
    test={seed: [[0.1] * 4, [0.598, 0.6, 0.6, 0.6], [0.6] * 4] for seed in "01"},
)


def test_statistics_by_hand() -> None:
    """Of four clients with 10, 20, 30 and 40 test samples."""
    made = run(SCORES, course=COURSE)
    assert value(Number("mean", run="made"), made=made) == pytest.approx(52.5)
    assert value(Number("micro", run="made", average="micro"), made=made) == pytest.approx(2 + 8 + 18 + 36)
    # Squares of the distances to 52.5: 1056.25, 156.25, 56.25 and 1406.25.
    assert value(Number("spread", run="made", statistic="spread"), made=made) == pytest.approx(668.75**0.5)
    assert value(Number("rounds", run="made", statistic="rounds"), made=made) == 4
    assert value(Number("small", run="made", among="smaller"), made=made) == pytest.approx(30)
    assert value(Number("large", run="made", among="larger"), made=made) == pytest.approx(75)


def test_changes_are_client_by_client() -> None:
    """Two of four clients lose, both of them among the smaller half."""
    before, after = Number("before", run="before"), run((0.1, 0.3, 0.7, 0.9))
    for statistic, among, expected in (("mean", "all", -2.5), ("hurt", "all", 50), ("hurt", "smaller", 100)):
        number = Number("change", run="after", minus="before", statistic=statistic, among=among)  # type: ignore[arg-type]
        assert value(number, before, before=run(SCORES), after=after) == pytest.approx(expected)


def test_a_change_of_errors_hurts_upwards() -> None:
    before = Number("before", run="before")
    number = Number("change", run="after", minus="before", statistic="hurt")
    errors = {"before": run((1.0, 1.0), metric="RMSE"), "after": run((1.2, 0.9), metric="RMSE")}
    assert value(number, before, **errors) == 50
    assert value(Number("error", run="before"), **errors) == 1.0


def test_of_several_runs_the_one_that_is_best_on_validation_data_counts() -> None:
    runs = {"a": run(SCORES, validated=0.5), "b": run((0.1,) * 4, validated=0.6)}
    assert value(Number("tuned", run=("a", "b")), **runs) == pytest.approx(10)
    errors = {name: replace(each, metric="RMSE") for name, each in runs.items()}
    assert value(Number("tuned", run=("a", "b")), **errors) == pytest.approx(0.525)


def test_differences_are_paired_where_clients_are_the_same() -> None:
    """Clients differ much, and each gains a little: sure in pairs, and not otherwise."""
    paired = replace(result(0.5, 0.7), runs={"low": run(SCORES), "high": run([each + 0.02 for each in SCORES])})
    claims = (Claim("C1", "high is above low.", ("high",), ("low",)),)
    assert judge_claims(recipe(claims=claims), paired)[0].verdict is Verdict.REPRODUCED
    other = {"low": paired.runs["low"], "high": replace(paired.runs["high"], fingerprint="other data")}
    assert judge_claims(recipe(claims=claims), replace(paired, runs=other))[0].verdict is Verdict.UNDECIDED


def test_what_was_not_measured_does_not_count() -> None:
    made = run(SCORES, scores={**run(SCORES).scores, "without_head.cosine": {s: [None, 0.5, None, 0.7] for s in "01"}})
    assert value(Number("body", run="made", score="without_head.cosine"), made=made) == pytest.approx(60)


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    stored = replace(result(0.5, 0.7), runs={"low": run(SCORES, course=COURSE), "high": run(AROUND)})
    write_result(tmp_path, stored)
    assert list(read_results(tmp_path, recipe())) == [stored]
    path = tmp_path / "made.json"
    path.write_text(path.read_text().replace('"d"', '"d", "e"'))
    with pytest.raises(PartitaError, match="do not fit"):
        list(read_results(tmp_path, recipe()))


def test_a_result_that_is_made_again_keeps_what_the_authors_code_found(tmp_path: Path) -> None:
    theirs = recipe(authors={"theirs": "low"})
    before = result(0.5, 0.7)
    write_result(tmp_path, replace(before, runs={**before.runs, "theirs": run(SCORES)}))
    again = gathered_result(theirs, "full", {}, tmp_path)
    assert again.runs["theirs"] == run(SCORES)
    assert "theirs" not in gathered_result(recipe(), "full", {}, tmp_path).runs


def test_runs_of_other_recipes_are_borrowed(tmp_path: Path) -> None:
    """They are read where they are stored, and not kept twice."""
    write_result(tmp_path, result(0.5, 0.7))
    lending = recipe(name="other", runs={}, borrowed={"low": "made/low", "high": "made/high", "none": "made/none"})
    (found,) = read_results(tmp_path, lending)
    assert found.runs == result(0.5, 0.7).runs
    assert judge_claims(lending, found)[0].verdict is Verdict.REPRODUCED
    assert not list(read_results(tmp_path, replace(lending, borrowed={"low": "absent/low"})))


def test_every_drawing_has_its_numbers_in_a_table() -> None:
    analysed = {
        **run((0.1, 0.3, 0.7, 0.9)).scores,
        **{f"finetuning.head.{epoch}": {s: [0.1 * epoch] * 4 for s in "01"} for epoch in (0, 1)},
        **{f"cka.{layer}": {s: [0.5] * 4 for s in "01"} for layer in ("conv", "fc")},
    }
    runs = {"before": run(SCORES), "after": run((0.1, 0.3, 0.7, 0.9), scores=analysed, course=COURSE)}
    numbers = (Number("before", run="before"), Number("change", run="after", minus="before"))
    wanted = [
        Picture("a", "Curves", "curves", ("after",)),
        Picture("b", "Tuning", "finetuning", ("after",)),
        Picture("c", "Layers", "similarity", ("after",)),
        Picture("d", "Numbers", "numbers", ("before",)),
        Picture("e", "Changes", "gains", ("change",)),
        Picture("f", "Sizes", "sizes", ("change",)),
        Picture("g", "What is not stored", "curves", ("before",)),
    ]
    given = recipe(numbers=numbers, claims=(), pictures=tuple(wanted), runs={"before": {}, "after": {}})
    drawn = pictures(given, replace(result(0.5, 0.7), runs=runs))
    assert [each.name for each in drawn] == list("abcdef")
    tables = {each.name: [list(row) for row in each.table.rows] for each in drawn}
    assert tables["a"] == [["2", "10.00"], ["4", "59.95"], ["6", "60.00"]]
    assert tables["b"] == [["after, head", "0.00", "10.00"]]
    assert tables["c"] == [["after", "0.500", "0.500"]]
    assert tables["e"] == [["change", "-10.00", "-10.00", "-5.00", "2.50", "10.00", "50 %"]]
    assert tables["f"][0] == ["10 to 10", "1", "-10.00", "100 %"]
