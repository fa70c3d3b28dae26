"""Names from outside (folders, methods, data, clients) are shown as they are, and do nothing."""

import csv
import json
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from partita.api.seeds import compare
from partita.experiment.settings.files import make
from partita.report.report import report
from partita.report.study import study
from partita.report.tables import comparison_text
from partita.runs.gains import gains_of
from partita.runs.stored import read_run
from studies import experiment_of, keep, write_run

Told = Callable[..., str]
ODD = "fedper[lr=0.1]"
CLIENTS = ["[red]anna[/red]", ":smile: bo", "=2+3"]
NAMED = [{"name": "lo[c]al", "run": "../[bold]base", "variant": "before_local", "label": "local"}]
COUNTS = [[30, 10], [2, 2], [1, 3]]
LABELS = {"classes": 2, "clients": [0, 1, 2], "train": COUNTS, "validation": COUNTS, "test": COUNTS}
NETWORK = {"clients": [0, 1, 2], "score": [0.1, 0.1, 0.9], "micro": 0.3, "macro": 0.3}


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A run that hurts its first client, with a baseline; all of their names look like markup."""
    about: dict[str, Any] = {"names": CLIENTS, "data": "[b]digits[/b]"}
    write_run(tmp_path / "[bold]base", {1: [0.6, 0.5, 0.5]}, label="lo[c]al", **about)
    failed = {"baselines": NAMED, "labels": LABELS, "floor": NETWORK, "guard_failed": "no [green]validation[/] data"}
    write_run(tmp_path / ODD, {1: [0.5, 0.6, 0.7]}, label="fed[/]per", analyses=failed, **about)
    return tmp_path


def test_the_terminal_shows_them_as_they_are(runs: Path, told: Told) -> None:
    shown = told("show", str(runs / ODD))
    assert "fed[/]per, 3 clients of [b]digits[/b]: done" in shown
    assert "lo[c]al" in shown
    assert "Worse than lo[c]al: [red]anna[/red]\n" in shown
    assert "Worse than floor: =2+3\n" in shown
    assert "No guard: no [green]validation[/] data" in shown
    listed = told("runs", str(runs))
    for name in (str(runs / ODD), str(runs / "[bold]base"), "fed[/]per", "[b]digits[/b]"):
        assert name in listed
    compared = told("compare", str(runs / ODD), str(runs / "[bold]base"))
    assert "fed[/]per" in compared
    assert "lo[c]al" in compared


def test_long_names_are_whole_where_nobody_looks(tmp_path: Path, told: Told) -> None:
    """What goes to a file or another program is not cut to the width of a terminal."""
    folder = write_run(tmp_path / ("long" * 50) / ("deep" * 40), {1: [0.5]}, status="interrupted")
    assert f"partita resume {folder}\n" in told("show", str(folder))
    assert f"{folder} " in told("runs", str(tmp_path))


def test_messages_and_errors_show_them_as_they_are(
    runs: Path, told: Told, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(runs)
    monkeypatch.setattr("sys.argv", ["partita", "report", ODD, "--output", "[i]mine/report[x].html"])
    from partita.cli.main import main

    with pytest.raises(SystemExit):
        main()
    assert "Report: [i]mine/report[x].html" in capsys.readouterr().err
    assert Path("[i]mine/report[x].html").is_file()
    monkeypatch.setattr("sys.argv", ["partita", "show", "no[where]"])
    with pytest.raises(SystemExit):
        main()
    assert "no[where] holds no run" in capsys.readouterr().err


def test_the_report_names_clients(runs: Path) -> None:
    text = unescape(report(study([runs / ODD])))
    for shown in ("fed[/]per", "[b]digits[/b]", '<th scope="row">[red]anna[/red]</th>', f"<td>{CLIENTS[0]}</td>"):
        assert shown in text
    assert 'data-tip="client [red]anna[/red], seed 0:' in text
    assert "No guard for fed[/]per: no [green]validation[/] data" in text


def test_charts_of_labels_and_analyses_name_clients(tmp_path: Path) -> None:
    counts = [[3, 1], [2, 2], [1, 3]]
    analyses = {
        "labels": {"classes": 2, "clients": [0, 1, 2], "train": counts, "validation": counts, "test": counts},
        "similarity": {
            "clients": [0, 2],
            "layers": ["one"],
            "cosine": [0.5],
            "cosine_std": [0.0],
            "cka": [None],
            "cka_std": [None],
            "matrix": [[1.0, 0.5], [0.5, 1.0]],
        },
        "embedding": {"x": [0.0, 1.0] * 15, "y": [0.0, 1.0] * 15, "label": [10, 2] * 15, "client": [1, 2] * 15},
    }
    long = "a name that is far too long for the edge of a chart"
    folder = write_run(tmp_path / "run", {1: [0.5, 0.6, 0.7]}, names=["ada", "bob", long], analyses=analyses)
    text = report(study([folder]))
    assert 'data-tip="client ada, label 0: 9 samples"' in text
    assert f'data-tip="clients ada and {long}: 0.500"' in text
    assert 'data-tip="client bob, label 10"' in text
    assert f'<th scope="row">{long}</th>' in text
    assert ">a name … chart</text>" in text


def test_machines_get_names_beside_numbers(runs: Path, told: Told) -> None:
    found = json.loads(told("show", str(runs / ODD), "--json"))
    assert found["names"] == CLIENTS
    assert {each["name"] for each in found["records"]} == set(CLIENTS)
    [floor, local] = found["gains"]
    assert (floor["hurt"], floor["hurt_names"]) == ([2], ["=2+3"])
    assert (local["hurt"], local["hurt_names"], local["names"]) == ([0], [CLIENTS[0]], CLIENTS)
    assert list(gains_of(read_run(runs / ODD))[1].hurt) == [0]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_spreadsheet_runs_nothing(runs: Path, told: Told, tmp_path: Path) -> None:
    """Text that would be a formula stands behind an apostrophe; numbers are numbers, negative ones too."""
    told("export", str(runs / ODD), "--csv", str(tmp_path / "tables"))
    metrics, traffic = (rows(tmp_path / "tables" / f"{name}.csv") for name in ("metrics", "traffic"))
    assert [row["name"] for row in metrics[::2]] == ["[red]anna[/red]", ":smile: bo", "'=2+3"]
    assert metrics[0] | {"loss": ""} == {
        "round": "1",
        "client": "0",
        "variant": "before_local",
        "role": "validation",
        "count": "100",
        "correct": "50",
        "loss": "",
        "name": "[red]anna[/red]",
    }
    assert traffic[0]["name"] == "[red]anna[/red]"
    for number, label in enumerate(("=cmd()", "+1", "-1", "@x", "plain")):
        description = experiment_of(label)
        write_run(tmp_path / "odd" / str(number), {1: [0.5 - number / 10, 0.4]}, label=label, experiment=description)
    text = comparison_text(compare(tmp_path / "odd", baseline="plain"), "csv")
    found = list(csv.DictReader(text.splitlines()))
    assert [row["method"] for row in found] == ["'=cmd()", "'+1", "'-1", "'@x", "plain"]
    assert float(found[3]["difference"]) == pytest.approx(0.05)
    assert float(text.splitlines()[1].split(",")[1]) == pytest.approx(0.45)


def test_markdown_shows_text_and_no_links(tmp_path: Path) -> None:
    evil = "a|b [click](https://evil.example) <b>x</b> `c` www.evil.example me@evil.example\n\n# title"
    for number, label in enumerate(("fedavg", evil)):
        write_run(tmp_path / str(number), {1: [0.5, 0.6 + number / 10]}, label=label, experiment=experiment_of(label))
    text = comparison_text(compare(tmp_path, baseline="fedavg"), "markdown")
    [line] = [line for line in text.splitlines() if line.startswith(r"| a\|b")]
    assert line.startswith(
        r"| a\|b \[click\](https\://evil.example) \<b\>x\</b\> \`c\` www\.evil.example me\@evil.example # title | "
    )
    assert line.count("|") - line.count(r"\|") == 8


def test_runs_of_one_method_are_named_by_their_settings(tmp_path: Path, told: Told) -> None:
    """Two rates, one of them under two seeds, in one folder: nothing is lost from a comparison or a report."""
    data = {"name": "digits", "split": {"name": "iid", "clients": 3}, "seed": 0}
    for number, (rate, seed) in enumerate(((0.1, 0), (0.1, 1), (0.2, 0), (0.2, 1))):
        algorithm = {"name": "fedper", "optimizer": {"name": "sgd", "lr": rate}}
        settings = {"algorithm": algorithm, "model": {"name": "mlp", "hidden": 4}, "data": data, "seed": seed}
        keep(make({**settings, "rounds": 1}), tmp_path / f"run-{number}")
    compared = told("compare", str(tmp_path))
    assert "fedper optimizer.lr=0.1 " in compared
    assert "fedper optimizer.lr=0.2 " in compared
    methods = study(sorted(path.parent for path in tmp_path.rglob("run.sqlite"))).methods
    assert [(method.name, [each.run.seed for each in method.replicas]) for method in methods] == [
        ("fedper optimizer.lr=0.1", [0, 1]),
        ("fedper optimizer.lr=0.2", [0, 1]),
    ]
