"""A folder of runs: means over seeds, every run shown or named with a reason, and unlike runs marked or refused.

One file, since all commands are given the same folder of runs.
"""

import csv
import json
import re
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import partita
from partita import PartitaError
from partita.cli.main import main
from partita.evaluation.intervals import half_width
from partita.evaluation.metric import Metric
from partita.evaluation.seeds import Numbers, over_seeds, seeds_table
from partita.report.report import report
from partita.report.study import study
from partita.runs.complete import complete
from partita.runs.database import DATABASE
from partita.runs.folders import BESIDE_SEEDS
from partita.runs.session import Session
from studies import experiment_of, made, write_run

Told = Callable[..., str]
SETTINGS: dict[str, Any] = {
    "algorithm": "fedper",
    "model": {"name": "mlp", "hidden": 4},
    "data": {"name": "digits", "split": {"name": "iid", "clients": 3}, "seed": 0},
    "rounds": 1,
    "evaluate_every": 0,
    "batching": {"size": 200},
}


# Means.


def test_half_widths_by_hand() -> None:
    """0.4 and 0.6: deviation 0.1414, standard error 0.1, times 12.706. 1, 2, 3: 4.303 / sqrt(3)."""
    assert half_width([0.5]) is None
    assert half_width([0.4, 0.6]) == pytest.approx(1.27062, abs=1e-5)
    assert half_width([1.0, 2.0, 3.0]) == pytest.approx(4.30265 / 3**0.5, abs=1e-5)
    assert half_width([0.0, 1.0] * 50) == pytest.approx(1.98422 * 0.0502519, abs=1e-6)


def test_cells_are_averaged_over_the_seeds_that_have_them() -> None:
    several = [Numbers({"a": {"x": 0.4, "y": None}}), Numbers({"a": {"x": 0.6, "y": 0.5}, "b": {"x": None}})]
    means = over_seeds(several)
    assert means.keys() == {"a"}
    assert (means["a"]["x"].mean, means["a"]["x"].seeds) == (0.5, 2)
    assert (means["a"]["y"].mean, means["a"]["y"].half_width, means["a"]["y"].seeds) == (0.5, None, 1)
    table = seeds_table("", several, Metric("accuracy"))
    assert table.rows == [["a", "50.0 ± 127.1 %", "50.0 %"]]
    assert "Some cells are of fewer seeds, at least 1" in table.note


# The commands that compute, on two seeds and a run that is damaged, one that failed.


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds with quick baselines; a third whose stored models are damaged, and a run that failed."""
    place = tmp_path_factory.mktemp("runs")
    for seed in (0, 1, 2):
        experiment = made({**SETTINGS, "seed": seed})
        folder = place / "fedper" / f"seed-{seed}"
        with Session.start(
            experiment, folder, baselines=BESIDE_SEEDS if seed < 2 else None, baseline_tuning=False, on="inline"
        ) as session:
            session.run()
            complete(session)
    damage(folder, "UPDATE parts SET bytes = zeroblob(length(bytes))")
    write_run(place / "failed", {1: [0.5, 0.5, 0.5]}, rounds=2, label="ditto", status="failed")
    return place


def damage(folder: Path, change: str) -> None:
    with sqlite3.connect(folder / DATABASE) as connection:
        connection.execute(change)
    connection.close()


def left_out(said: dict[str, str]) -> dict[str, str]:
    return {Path(folder).name: reason for folder, reason in said.items()}


def check_skipped(said: dict[str, str]) -> None:
    reasons = left_out(said)
    assert reasons.keys() == {"seed-2", "failed"}
    assert "damaged" in reasons["seed-2"]
    assert reasons["failed"].startswith("it is not done (failed). Continue it with: partita resume")


def test_the_guard_of_a_folder(seeds: Path, told: Told) -> None:
    """One row for the method: means over its two seeds, and Student's interval of the difference."""
    said = json.loads(told("guard", str(seeds), "--json"))
    check_skipped(said["skipped"])
    assert len(said["runs"]) == 2
    [(name, found)] = said["groups"].items()
    runs = [said["runs"][folder] for folder in found["runs"]]
    assert (name, found["seeds"], found["clients"]) == ("fedper", [0, 1], 6)
    assert found["guarded"] == pytest.approx(fmean(each["macro_guarded"] for each in runs))
    assert found["hurt_before"] == sum(each["hurt_before"] for each in runs)
    one, other = (each["difference"] for each in runs)
    assert found["high"] - found["difference"] == pytest.approx(12.706205 * abs(one - other) / 2)
    text = told("guard", str(seeds))
    assert len(re.findall(r"^fedper ", text, re.MULTILINE)) == 1
    assert "over 2 seeds" in text
    assert f"{100 * found['guarded']:.1f} %" in text
    # The report says the same, with the damaged seed, which has no guard.
    shown = report(study([seeds]))
    assert f"{100 * found['guarded']:.1f} %" in shown
    assert "over 2 seeds" in shown


def test_the_evaluation_of_a_folder(seeds: Path, told: Told) -> None:
    asked = ("evaluate", str(seeds), "--what", "finetuning,similarity,embedding", "--epochs", "1", "--samples", "12")
    said = json.loads(told(*asked, "--json"))
    check_skipped(said["skipped"])
    found = said["groups"]["fedper"]
    assert found["means"].keys() == {"finetuning", "similarity"}, "a map has no mean"
    runs = [said["runs"][folder]["analyses"] for folder in found["runs"]]
    one, other = (each["finetuning"]["parts"]["head"]["macro"][1] for each in runs)
    cell = found["means"]["finetuning"]["head"]["epoch 1"]
    assert cell == {
        "mean": pytest.approx((one + other) / 2),
        "half_width": pytest.approx(12.706205 * abs(one - other) / 2),
        "seeds": 2,
    }
    text = told(*asked)
    assert f"{100 * cell['mean']:.1f} ± {100 * cell['half_width']:.1f} %" in text
    assert "Mean over 2 seeds" in text
    assert "has no mean over seeds" in text
    assert "\ntraining accuracy " in told("evaluate", str(seeds), "--what", "training")


def test_a_folder_in_which_nothing_can_be_done_is_an_error(
    seeds: Path, tmp_path: Path, heard: Callable[..., tuple[int, str]]
) -> None:
    shutil.copytree(seeds / "fedper" / "seed-2", tmp_path / "only" / "seed-2")
    code, text = heard("guard", str(tmp_path / "only"))
    assert code == 2
    assert "damaged" in text


# Runs that are skipped.


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Of five runs two are good; one is a copy, one is not done, one is damaged."""
    place = tmp_path / "runs"
    write_run(place / "a", {1: [0.5, 0.6]}, label="fedavg", experiment=experiment_of("fedavg"))
    write_run(place / "b", {1: [0.7, 0.8]})
    shutil.copytree(place / "b", place / "copy")
    write_run(place / "halfway", {1: [0.9, 0.9]}, rounds=2, seed=1, experiment=experiment_of("fedper", seed=1))
    write_run(place / "harmed", {1: [0.1, 0.1]}, label="ditto", experiment=experiment_of("ditto"))
    (place / "harmed" / DATABASE).write_bytes(b"not a database")
    return place


REASONS = {
    "copy": "it has the settings, seed and scores of",
    "halfway": "it is not done (interrupted). Continue it with: partita resume",
    "harmed": "is damaged: file is not a database",
}


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """The exit status of a command, and all that it prints, errors and notes too, in one line."""

    def ask(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["partita", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        found = capsys.readouterr()
        return int(ended.value.code or 0), " ".join(f"{found.out} {found.err}".split())

    return ask


def test_the_report_command_names_what_it_leaves_out(mixed: Path, heard: Callable[..., tuple[int, str]]) -> None:
    code, text = heard("report", str(mixed))
    assert code == 0
    assert "Report: " in text
    for name, reason in REASONS.items():
        assert re.search(rf"{name} is skipped: .*{re.escape(reason)}", text), name


@pytest.mark.parametrize(
    "command", [["show"], ["show", "--json"], ["compare"], ["report"], ["export", "--csv", "tables"]], ids=" ".join
)
def test_every_run_is_shown_or_named_with_its_reason(
    mixed: Path, heard: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(mixed.parent)
    name, *options = command
    code, text = heard(name, "runs", *options)
    assert code == 0
    if name == "report":
        text = re.sub("<[^>]*>", "", Path("runs/report.html").read_text(encoding="utf-8"))
    for folder, reason in REASONS.items():
        assert f"runs/{folder}" in text
        assert reason in text
    if name == "export":
        with Path("tables/gains.csv").open(encoding="utf-8") as file:
            assert {row["run"] for row in csv.DictReader(file)} <= {"runs/a", "runs/b"}
        with Path("tables/metrics.csv").open(encoding="utf-8") as file:
            assert {row["run"] for row in csv.DictReader(file)} == {"runs/a", "runs/b"}


def test_a_folder_of_damaged_runs_alone_is_an_error(
    mixed: Path, heard: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(mixed.parent)
    for name in ("a", "b", "copy", "halfway"):
        shutil.rmtree(mixed / name)
    for command in (["show"], ["compare"], ["report"], ["export", "--csv", "tables"], ["guard"], ["evaluate"]):
        code, text = heard(command[0], "runs", *command[1:])
        assert code == 2, command
        assert "The run in runs/harmed is damaged" in text, command


# Unlike with unlike.


def pair(place: Path, changes: dict[str, Any], scores: dict[int, list[float]] | None = None) -> Path:
    """Two runs of which the second is of other terms."""
    write_run(place / "a", {2: [0.5, 0.6]}, label="fedavg", experiment=experiment_of("fedavg"))
    settings = {**experiment_of("fedper"), **changes.pop("settings", {})}
    write_run(place / "b", scores or {2: [0.6, 0.7]}, experiment=settings, **changes)
    return place


@pytest.mark.parametrize(
    ("changes", "scores", "mark"),
    [
        pytest.param({}, {4: [0.6, 0.7]}, "4 rounds", id="rounds"),
        pytest.param({"clients": 2}, {2: [0.6]}, "tested on 1 of 2 clients", id="evaluated clients"),
        pytest.param({"oracle_validation": True}, None, "oracle", id="oracle"),
        pytest.param({"settings": {"model": {"name": "cnn4"}}}, None, "network cnn4", id="network"),
        pytest.param({"settings": {"participation": "0.5"}}, None, "participation 0.5", id="participation"),
        pytest.param({"settings": {"batching": {"size": 7}}}, None, "batches size=7", id="batching"),
        pytest.param({"settings": {"weights": "other"}}, None, "other initial weights", id="initial weights"),
        pytest.param(
            {"settings": {"pretrain": {"algorithm": "fedavg", "rounds": 3}}}, None, "5 rounds", id="pretraining"
        ),
    ],
)
def test_other_terms_are_marked_in_the_table_itself(
    tmp_path: Path, told: Told, changes: dict[str, Any], scores: dict[int, list[float]] | None, mark: str
) -> None:
    """In the row of the method, wherever the two stand side by side; and no column has a best of the two."""
    folder = str(pair(tmp_path, dict(changes), scores))
    [row] = [line for line in told("show", folder).splitlines() if line.startswith("fedper (")]
    assert mark in row
    assert "*" not in row
    compared = told("compare", folder).splitlines()
    assert compared[0].endswith("not on equal terms")
    [row] = [line for line in compared if line.startswith("fedper ")]
    assert row.endswith(mark)
    [table] = re.findall(r'aria-label="Test accuracy of each method">(.*?)</table>', report(study([tmp_path])))
    assert re.search(rf"fedper \([^<]*{mark}", table)
    assert any(mark in each for each in study([tmp_path]).methods[1].marks)


def test_equal_terms_have_no_mark(tmp_path: Path, told: Told) -> None:
    folder = str(pair(tmp_path, {}))
    assert not re.search(r"^fed\w+ \(", told("show", folder), re.MULTILINE)
    assert "not on equal terms" not in told("compare", folder)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"split": {"name": "dirichlet", "alpha": 0.1}}, id="split"),
        pytest.param({"transform": "standardize"}, id="preprocessing"),
    ],
)
def test_other_clients_are_refused_or_apart(tmp_path: Path, told: Told, settings: dict[str, Any]) -> None:
    """What decides is the fingerprint of what clients hold: `compare` refuses, a report has a table for each."""
    data = {"name": "digits", "seed": 0, **settings}
    pair(tmp_path, {"fingerprint": "another", "settings": {"data": data}})
    with pytest.raises(PartitaError, match="have other clients under seed 0: data, division or preprocessing differ"):
        partita.compare(tmp_path)
    assert [[each.name for each in part.methods] for part in study([tmp_path]).by_clients] == [["fedavg"], ["fedper"]]
    text = told("show", str(tmp_path))
    assert text.count("mean ± over clients") == 2
    assert "Not all runs have the same data and division" in text
    assert "Of 2 methods" not in text


@pytest.mark.parametrize(
    "change", [{"data": {"split": {"name": "iid", "clients": 4}}}, {"data": {"seed": 1}}], ids=["split", "division"]
)
def test_another_division_has_another_fingerprint(change: dict[str, Any]) -> None:
    other = {**SETTINGS, "data": {**SETTINGS["data"], **change["data"]}}
    assert made(SETTINGS).data.fingerprint == made(SETTINGS).data.fingerprint
    assert made(SETTINGS).data.fingerprint != made(other).data.fingerprint
