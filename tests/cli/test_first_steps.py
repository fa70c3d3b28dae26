"""The first minutes: `partita` alone, `new`, `schema` and `doctor`."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from partita.api import installation
from partita.api.installation import Finding
from partita.cli.main import main

Told = Callable[..., str]

pytestmark = pytest.mark.usefixtures("own_folder")


def ended_with(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> object:
    monkeypatch.setattr("sys.argv", ["partita", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code


def test_alone_it_says_what_to_do_first(told: Told) -> None:
    shown = told()
    for command in ("demo", "new", "run", "list", "doctor", "--help"):
        assert f"partita {command}" in shown


def test_alone_it_is_quick() -> None:
    program = (
        "import sys\nfrom partita.cli.main import main\nsys.argv = ['partita']\n"
        "try: main()\nexcept SystemExit: assert not {'torch', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300, capture_output=True)


def test_an_unknown_command_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ended_with(monkeypatch, "rum") == 2


def test_a_new_file_runs(told: Told) -> None:
    told("new", "mine.toml", "-a", "fedalt", "--split", "iid")
    told("run", "mine.toml", "rounds=1", "data.split.clients=2", "--on", "inline", "--no-baselines", "-o", "run")
    assert json.loads(told("show", "run", "--json"))["experiment"]["algorithm"]["name"] == "fedalt"


def test_a_file_is_not_overwritten(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine.toml").write_text("mine")
    assert ended_with(monkeypatch, "new", "mine.toml") == 2
    assert "mine.toml exists and is not overwritten" in capsys.readouterr().err
    assert Path("mine.toml").read_text() == "mine"
    assert ended_with(monkeypatch, "new", "nowhere/mine.toml") == 2
    assert "Cannot write nowhere/mine.toml" in capsys.readouterr().err


def test_a_name_that_is_not_known_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended_with(monkeypatch, "new", "-a", "fedpar") == 2
    assert "Did you mean 'fedper'?" in capsys.readouterr().err
    assert not Path("experiment.toml").exists()


def test_the_schema_is_printed_or_written(told: Told) -> None:
    printed = json.loads(told("schema"))
    assert told("schema", "--output", "partita.schema.json") == ""
    assert json.loads(Path("partita.schema.json").read_text()) == printed


def test_the_doctor_finds_this_installation_well(told: Told) -> None:
    found = {each["subject"]: each for each in json.loads(told("doctor", "--json"))}
    assert found["torch"]["state"] == found["trial run"]["state"] == "ok"
    assert {"Python", "partita", "device", "cores", "memory", "downloads", "extra serve"} <= set(found)
    assert "Everything that a run needs is here." in told("doctor", "--no-run")


def test_what_is_missing_is_told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    real = installation._version
    gone = ("fastapi", "safetensors")
    monkeypatch.setattr(installation, "_version", lambda name: None if name in gone else real(name))
    monkeypatch.setenv("PARTITA_DATA", str(Path("nowhere").absolute()))
    assert ended_with(monkeypatch, "doctor") == 1
    shown = capsys.readouterr().out
    assert "-m pip install safetensors" in shown
    assert "'partita[serve]'" in shown
    assert "This would stop a run: safetensors, PARTITA_DATA" in shown
    assert "trial run" not in shown, "it would only fail"


def test_a_folder_that_cannot_be_written_is_a_problem() -> None:
    Path("file").write_text("")
    found = installation._writable("this folder", Path("file"), "Take another.")
    assert (found.state, found.advice) == ("problem", "Take another.")


def test_a_trial_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no memory left")

    monkeypatch.setattr("partita.experiment.simulate.run_stages", fail)
    assert installation.trial() == Finding(
        "trial run",
        "problem",
        "OSError: no memory left",
        "Try again with --on inline, which needs no other processes.",
    )
