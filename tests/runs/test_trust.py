"""Files and runs of somebody else name what is installed, and run no other code unless the user says so."""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from typer.testing import CliRunner

from partita.cli.main import app
from partita.errors import PartitaError
from partita.experiment.settings.files import make, read
from partita.runs.folders import new_folder
from partita.runs.session import Session
from partita.runs.store import Store
from runs.kept import SETTINGS, experiment_of, start

CODE = """
from pathlib import Path

Path({trace!r}).write_text("ran")


def malicious(**settings):
    Path({trace!r}).write_text("ran")
"""


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that somebody else's code would write, were it imported or called."""
    found = tmp_path / "trace"
    (tmp_path / "others_code.py").write_text(CODE.format(trace=str(found)), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "others_code", raising=False)
    return found


@pytest.mark.parametrize("kind", ["algorithm", "model", "data", "server", "data.split"])
def test_an_experiment_file_runs_no_code(trace: Path, tmp_path: Path, kind: str) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(f"{kind}.name = 'others_code:malicious'\n", encoding="utf-8")
    with pytest.raises(PartitaError, match=r"'others_code:malicious' imports and runs Python code.*--trust"):
        make(read(file))
    assert not trace.exists()


def test_trust_names_any_function(trace: Path, tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text("data.name = 'others_code:malicious'\n", encoding="utf-8")
    with pytest.raises(PartitaError):
        make(read(file, trust=True))
    assert trace.read_text() == "ran", "that is what trust means"


def test_the_command_line_names_any_function(trace: Path) -> None:
    with pytest.raises(PartitaError):
        make(read(None, ["data.name=others_code:malicious"]))
    assert trace.read_text() == "ran", "the user wrote it"


@pytest.fixture(scope="module")
def received(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run from somebody else, whose data are said to come from their code."""
    folder = start({**SETTINGS, "rounds": 1}, tmp_path_factory.mktemp("trust") / "run")
    with Store.open(folder, write=True) as store:
        described = {**store.record.experiment, "data": {"name": "others_code:malicious", "command": "anything"}}
        store.note(experiment=json.loads(json.dumps(described)))
    return folder


@pytest.mark.parametrize("command", ["show", "report", "verify", "resume", "evaluate", "guard", "export"])
def test_a_run_of_somebody_else_runs_no_code(received: Path, trace: Path, command: str) -> None:
    more = {"export": ["--models", str(trace.parent / "models")], "report": ["-o", str(trace.parent / "report.html")]}
    CliRunner().invoke(app, [command, str(received), *more.get(command, [])])
    assert not trace.exists()


def test_what_needs_the_code_says_so(received: Path, trace: Path) -> None:
    with pytest.raises(PartitaError, match=r"others_code:malicious.*--trust"):
        Session.open(received)
    assert not trace.exists()


def test_runs_that_start_together_have_folders_of_their_own(tmp_path: Path) -> None:
    experiment = experiment_of(SETTINGS)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: new_folder(tmp_path / "runs", experiment), range(32)))
    assert len(set(made)) == 32
