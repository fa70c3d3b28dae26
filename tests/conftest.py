"""One thread: small tensors, and as many test processes as cores. Random tests are the same on every run."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

from browser import CHROMIUM, Browser, browser

torch.set_num_threads(1)
# What is imported once is compiled once, whatever the environment says: many tests start processes of their own.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Most simulations here are over before a second process has begun; tests of processes say how many they want.
os.environ["PARTITA_WORKERS"] = "1"
# A shell starts what runs in the background without Ctrl-C, and the processes of tests would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
settings.register_profile("partita", deadline=None, derandomize=True)
settings.load_profile("partita")
torch.manual_seed(0)


def pytest_runtest_setup() -> None:
    """A network that a test makes has the same weights whatever ran before."""
    torch.manual_seed(0)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """What a command prints."""

    def ask(*arguments: str) -> str:
        from partita.cli.main import main

        monkeypatch.setattr("sys.argv", ["partita", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        return capsys.readouterr().out

    return ask


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test works in an empty folder, where runs may be left."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def shown() -> Iterator[Browser]:
    """A page in a real browser."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed and could not be: pages are not tested in a browser")
    with browser() as opened:
        yield opened
