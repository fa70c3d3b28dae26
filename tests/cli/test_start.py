"""Finding settings, and starting: what a person meets before the first number."""

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from partita import registry
from partita.cli.main import main
from partita.experiment.settings.options import options_of, source_of
from partita.runs.database import lock

Told = Callable[..., str]
COMMAND = (sys.executable, "-c", "from partita.cli.main import main; main()")
SMALL = ("data.split=iid", "data.split.clients=2", "rounds=1", "--on", "inline")
MYNET = """
from torch import nn

class Net(nn.Module):
    def __init__(self, classes: int, width: int = 4) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(64, width), nn.Linear(width, classes)

    def forward(self, inputs):
        return self.head(self.body(inputs.flatten(1)).relu())
"""

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.mark.parametrize("kind", ["algorithms", "servers"])
def test_every_option_is_explained(kind: registry.Kind) -> None:
    """By discovery: a new option without a meaning falls here."""
    for name in registry.names(kind):
        make = registry.get(kind, name)
        assert source_of(make)
        for option in options_of(make):
            assert option.meaning, f"{name}.{option.name} has no line in experiment/settings/meanings.py"
            assert option.type
            assert option.default


def test_describe_lists_options(told: Told) -> None:
    shown = told("describe", "fedalt", "--options")
    assert "Source: FedAlt. Pillutla et al., 2022, https://arxiv.org/abs/2204.03809" in shown
    row = next(line for line in shown.splitlines() if line.startswith("regularization"))
    assert row.split("  ")[0] == "regularization"
    assert "number, at least 0" in row
    assert "0.0" in row
    assert "strength of the pull of the personal part" in row
    found = json.loads(told("describe", "fedbn", "--options", "--json"))
    assert [option["name"] for option in found["options"]] == ["epochs", "optimizer"]
    assert "personal_epochs" in told("describe", "fedalt"), "beside what it does to a network"


def test_the_version(told: Told) -> None:
    assert told("--version") == f"partita {version('partita')}\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [("run -a fedp", "fedper fedprox"), ("run -m ml", "mlp"), ("run -d dig", "digits"), ("describe flay", "flayer")],
)
def test_the_shell_completes_names(words: str, expected: str) -> None:
    line = f"partita {words}"
    environment = {
        **os.environ,
        "_PARTITA_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    program = "import sys; sys.argv = ['partita']; from partita.cli.main import app; app(prog_name='partita')"
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=300
    )
    assert found.stdout.split() == expected.split(), found.stderr


def test_a_network_in_the_current_folder_is_found(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place not in ("", os.getcwd())])
    Path("mynet.py").write_text(MYNET)
    try:
        told("run", "-m", "mynet:Net", "model.width=6", *SMALL, "--no-baselines", "-o", "run")
    finally:
        sys.modules.pop("mynet", None)
    assert json.loads(told("show", "run", "--json"))["experiment"]["model"]["width"] == 6


def test_a_file_from_elsewhere_is_read(told: Told) -> None:
    """With a byte order mark and the line ends of Windows."""
    text = 'rounds = 1\r\n[data]\r\nname = "digits"\r\nsplit = { name = "iid", clients = 2 }\r\n'
    Path("file.toml").write_bytes(b"\xef\xbb\xbf" + text.encode())
    told("run", "file.toml", "--on", "inline", "--no-baselines", "-o", "run")


def test_paths_of_data_hold_in_any_folder(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    np.savez("mine.npz", x=draw.normal(size=(40, 3)), y=np.arange(40) % 2, client=np.arange(40) // 10)
    told(
        "run",
        "-d",
        "npz",
        "data.path=mine.npz",
        "-m",
        "logistic",
        "-a",
        "fedavg",
        "rounds=1",
        "--on",
        "inline",
        "-o",
        "run",
    )
    here = Path.cwd()
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert json.loads(told("show", "../run", "--json"))["experiment"]["data"]["path"] == str(here / "mine.npz")
    told("resume", "../run")


def test_a_start_that_fails_leaves_its_folder_free(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ("run", *SMALL, "--no-baselines", "-o", "run")
    # The first pass is sound, and the first step is not.
    np.savez("mine.npz", x=np.full((40, 6), 1e30, dtype=np.float32), y=np.arange(40) % 2)
    monkeypatch.setattr("sys.argv", ["partita", *arguments, "-d", "npz", "data.path=mine.npz"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert not Path("run").exists()
    told(*arguments)


def test_a_run_that_is_worked_on_says_so(told: Told) -> None:
    told("run", *SMALL, "--no-baselines", "-o", "run")
    assert "running" not in told("show", "run")
    with lock(Path("run")):
        program = "from partita.cli.main import main; import sys; sys.argv = ['partita', 'show', 'run']; main()"
        shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300).stdout
    assert "It is running: another process works on run now.\n" in shown


def test_something_is_shown_at_once() -> None:
    """On a terminal, before the libraries are loaded; the score has a label, and one bar is of all rounds."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160"}
    arguments = [*COMMAND, "run", *SMALL, "-o", "run"]
    with subprocess.Popen(arguments, stderr=follower, stdout=subprocess.DEVNULL, env=environment) as process:
        os.close(follower)
        seen = b""
        until = time.monotonic() + 120
        while time.monotonic() < until:
            try:
                part = os.read(leader, 4096)
            except OSError:
                break
            if not part:
                break
            seen += part
        assert process.wait(timeout=300) == 0
    os.close(leader)
    text = seen.decode(errors="replace")
    assert text.index("Reading the data and building the network") < text.index("starting")
    assert "all rounds" in text
    assert "test accuracy" in text
