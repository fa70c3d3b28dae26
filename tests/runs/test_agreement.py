"""The report and the terminal tell the same of one and the same run, and what they tell is true."""

import ast
import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings, strategies as st

import partita
from partita.evaluation.metric import Metric
from partita.formatting import MINUS, NONE
from partita.report.method import Method, Replica
from partita.report.report import report
from partita.report.sections.cost import cost
from partita.report.sections.headline import headline as headline_of
from partita.report.study import Study, study
from partita.runs.gains import gains_of
from partita.runs.scores import scores_of
from partita.runs.stored import read_run
from partita.runs.target import Spent, reached
from studies import held, make_runs, write_run

NAMED = [{"name": "local", "run": "../base", "variant": "before_local", "label": "local"}]


def rows(folder: Path, of: str) -> list[list[str]]:
    """Cells of a table of the report, by its label."""
    text = report(study([folder]))
    [found] = re.findall(rf'aria-label="{of}">(.*?)</table>', text)
    cells = (re.findall("<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall("<tr>(.*?)</tr>", found))
    return [[re.sub("<[^>]*>", "", cell) for cell in row] for row in cells]


def headline(folder: Path, row: str, metric: str = "accuracy") -> dict[str, str]:
    titles, *others = rows(folder, f"Test {metric} of each method")
    [found] = [each for each in others if each[0] == row]
    return dict(zip(titles, found, strict=True))


def test_a_true_run_is_told_alike(tmp_path: Path, told: Callable[..., str]) -> None:
    """Its baselines, gains and clients hurt: in the report, in the terminal, for machines and in Python."""
    runs = make_runs(tmp_path, ("local", "fedavg", "fedper"), seeds=1)
    [folder] = runs["fedper"]
    gains = gains_of(read_run(folder))
    assert [each.over for each in gains] == ["floor", "local", "global"]
    for each in json.loads(told("show", str(folder), "--json"))["gains"]:
        [same] = [other for other in gains if other.over == each["over"]]
        assert (each["mean"], each["hurt"], each["clients"]) == (same.mean, list(same.hurt), list(same.clients))
    own = headline(folder, "fedper")
    printed = told("show", str(folder))
    for each in gains:
        [line] = re.findall(rf"^{each.over} .*$", printed, re.MULTILINE)
        macro, gain, _, hurt = re.split(r"\s{2,}", line.strip())[1:]
        assert hurt == each.hurt_text
        assert hurt.startswith(f"{len(each.hurt)} of 8 ({len(each.surely)} surely)")
        name = each.over if each.over == "floor" else f"{each.over} (baseline)"
        assert headline(folder, name)["mean ± over clients"].split()[0] == macro.removesuffix(" %")
        if each.over != "floor":
            assert own[f"gain over {each.over}"].replace(MINUS, "-") == gain
            assert own[f"hurt, against {each.over}"] == each.hurt_text
            assert f"Who is worse than {each.over} ({len(each.hurt)})" in report(study([folder]))


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["accuracy", "RMSE"]),
    st.lists(
        st.tuples(st.integers(0, 100), st.integers(0, 100)) | st.integers(1, 100).map(lambda same: (same, same)),
        min_size=1,
        max_size=24,
    ),
    st.booleans(),
)
def test_whatever_the_scores(metric: str, percents: list[tuple[int, int]], blurred: bool) -> None:
    """Worked out from whole numbers of hundredths; the last bits of a score say nothing."""
    blur = 1 - 4e-16 if blurred and metric == "RMSE" else 1.0
    with TemporaryDirectory() as place:
        folder = Path(place)
        write_run(folder / "base", {1: [blur * other / 100 for _, other in percents]}, label="local", metric=metric)
        run = [own / 100 for own, _ in percents]
        write_run(folder / "run", {1: run}, metric=metric, analyses={"baselines": NAMED})
        [gain] = gains_of(read_run(folder / "run"))
        [method] = study([folder / "run"]).methods
        shown = headline(folder / "run", "fedper", metric)
        worst = rows(folder / "run", "Clients hurt")[1]
    better = [(other - own) if metric == "RMSE" else (own - other) for own, other in percents]
    hurt = [client for client, each in enumerate(better) if each < 0]
    assert list(gain.hurt) == hurt
    assert method.hurt_count("local") == (len(hurt), len(better))
    surely = "" if metric == "RMSE" else f" ({len(gain.surely)} surely)"
    assert set(gain.surely) <= set(hurt)
    assert shown["hurt, against local"] == worst[1] == f"{len(hurt)} of {len(better)}{surely}"
    mean = sum(better) / len(better) / 100
    assert gain.mean == pytest.approx(mean, abs=1e-12)
    assert method.mean_gain("local") == pytest.approx(mean, abs=1e-12)
    said = float(shown["gain over local"].replace(MINUS, "-"))
    assert said == pytest.approx(mean if metric == "RMSE" else 100 * mean, abs=0.0006 if metric == "RMSE" else 0.051)


def test_an_error_that_is_larger_in_its_last_bits_hurts_nobody(tmp_path: Path) -> None:
    """Client 0 is equal but for rounding, client 1 is worse by 0.1, client 2 better by 0.3: a mean gain of 0.2 / 3."""
    write_run(tmp_path / "base", {1: [0.29, 0.5, 0.8]}, label="local", metric="RMSE")
    write_run(tmp_path / "run", {1: [0.29 + 2e-16, 0.6, 0.5]}, metric="RMSE", analyses={"baselines": NAMED})
    assert read_run(tmp_path / "run").scores()[0] > read_run(tmp_path / "base").scores()[0]
    [gain] = gains_of(read_run(tmp_path / "run"))
    assert (gain.gains[0], gain.hurt) == (0.0, (1,))
    shown = headline(tmp_path / "run", "fedper", "RMSE")
    assert (shown["gain over local"], shown["hurt, against local"]) == ("+0.067", "1 of 3")
    assert rows(tmp_path / "run", "Clients hurt")[1] == ["fedper", "1 of 3"]
    assert "hurt: 1 of 3, 1 equal" in report(study([tmp_path / "run"]))


def test_a_target_is_reached_alike(tmp_path: Path, told: Callable[..., str]) -> None:
    """Three clients with 70 of 100 right have a mean of 0.7, which their sum misses by its last bits."""
    run = write_run(tmp_path / "run", {1: [0.1] * 3, 2: [0.7] * 3})
    assert read_run(run).course()[2] < 0.7 < math.nextafter(read_run(run).course()[2], 1) + 1e-15
    assert reached(read_run(run), 0.7) == Spent(2, 2.0, 600)
    assert "was reached by round 2" in told("show", str(run), "--target", "0.7")
    titles, cells = rows(run, "Cost of a target")
    assert dict(zip(titles, cells, strict=True))["at least 70.0 %"] == "round 2, 2 s, 600 B"


def test_a_run_is_not_measured_against_itself(tmp_path: Path, told: Callable[..., str]) -> None:
    itself = [{**NAMED[0], "run": "."}]
    run = write_run(tmp_path / "run", {1: [0.5, 0.6]}, label="local", analyses={"baselines": itself})
    assert gains_of(read_run(run)) == []
    assert "gain over local" not in headline(run, "local")
    (tmp_path / "other").mkdir()
    assert json.loads(told("show", f"{tmp_path}/other/../run", "--json"))["gains"] == []


def test_a_baseline_that_is_gone_is_told_by_both(tmp_path: Path, told: Callable[..., str]) -> None:
    floor = {"clients": [0], "score": [0.2], "micro": 0.2, "macro": 0.2}
    run = write_run(tmp_path / "run", {1: [0.5]}, analyses={"baselines": NAMED, "floor": floor})
    assert "No local: " in told("show", str(run))
    assert f"The baseline local of {run} cannot be read." in report(study([run]))


def test_a_baseline_on_other_clients_is_no_baseline(tmp_path: Path, told: Callable[..., str]) -> None:
    """Its folder holds another run by now."""
    write_run(tmp_path / "base", {1: [0.5, 0.6]}, label="local", fingerprint="another division")
    floor = {"clients": [0], "score": [0.2], "micro": 0.2, "macro": 0.2}
    run = write_run(tmp_path / "run", {1: [0.5, 0.4]}, analyses={"baselines": NAMED, "floor": floor})
    assert [each.over for each in gains_of(read_run(run))] == ["floor"]
    assert re.search("No local: .* have different clients: their data or division differ", told("show", str(run)))
    assert "have different clients" in report(study([run]))


def test_a_floor_is_that_of_the_clients_that_were_tested(tmp_path: Path) -> None:
    """Clients 0 and 1 are tested, with floors of 0.2 and 0.4; the floor of client 2 would make it 0.5."""
    floor = {"clients": [0, 1, 2], "score": [0.2, 0.4, 0.9], "micro": 0.5, "macro": 0.5}
    run = write_run(tmp_path, {1: [0.5, 0.6]}, analyses={"floor": floor}, clients=3)
    [gain] = gains_of(read_run(run))
    assert gain.macro == pytest.approx(0.3)
    shown = headline(run, "floor")
    assert (shown["mean ± over clients"], shown["all samples"]) == ("30.0 ± 10.0 %", NONE)


def test_differences_are_those_of_the_command(tmp_path: Path, told: Callable[..., str]) -> None:
    """Client by client +20, -10 and 0 points."""
    runs = [
        write_run(tmp_path / "a", {1: [0.5, 0.6, 0.7]}, label="fedavg"),
        write_run(tmp_path / "b", {1: [0.7, 0.5, 0.7]}),
    ]
    assert scores_of([read_run(run) for run in runs])["fedper"] == {(0, 0): 0.7, (0, 1): 0.5, (0, 2): 0.7}
    text = report(study(runs))
    assert "+3.3" in text
    assert "1 / 1 / 1" in text
    assert "1/1/1" in told("compare", *map(str, runs)).replace(" ", "")


def test_bytes_of_a_round_are_the_same_throughout(tmp_path: Path) -> None:
    """100 down and 200 up in the one round of a run, and as much in three rounds of another: 66.7 and 133.3."""
    one = read_run(write_run(tmp_path / "one", {1: [0.5]}))
    three = read_run(write_run(tmp_path / "three", {3: [0.5]}))
    three = replace(three, numbers=held("three", three.records, three.traffic[:1]))
    method = Method("fedper", 0, (Replica(one, "before_local"), Replica(three, "before_local")), ({}, {}))
    found = Study(Metric("accuracy"), (method,))
    assert (one.bytes_per_round + three.bytes_per_round) / 2 == 200
    assert "<td><span>200 B</span></td>" in headline_of(found).html
    assert "<td>67 B</td><td>133 B</td>" in cost(found).html


def test_reports_leave_it_to_others_to_measure() -> None:
    """Records are turned into scores, gains and means in `partita.runs` alone, which the terminal asks too."""
    for path in (Path(partita.__file__).parent / "report").rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        used = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        assert not used & {"records", "correct", "loss"}, path


def test_clients_without_a_counted_sample_have_no_score(tmp_path: Path) -> None:
    """As of sentences in which no word counts: neither the report nor a comparison divides by their number."""
    runs = [
        write_run(tmp_path / name, {1: [0.5, 0.6]}, label=label, samples=samples)
        for name, label, samples in (("a", "fedavg", 10), ("b", "fedper", 0))
    ]
    assert read_run(runs[1]).scores() == {}
    assert read_run(runs[1]).summaries() == {}
    assert scores_of([read_run(runs[0])])["fedavg"] == {(0, 0): 0.5, (0, 1): 0.6}
    assert "Nothing was evaluated yet" in report(study(runs[1:]))
