"""Forks of a process that has loaded a command: as if each had been started by itself."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from partita.deploy import warm
from watching import alive, wait_for

PROGRAM = """
import os, subprocess, sys, time
from partita.deploy import warm

def started():
    open(sys.argv[1], "w").write(f"{os.getpid()} {os.getppid()} {' '.join(sys.argv)}")
    raise SystemExit("which is told to nobody")

def stays():
    open(sys.argv[1] + ".main", "w").write(str(os.getpid()))
    subprocess.run(["starts", sys.argv[1], "two words", "--option"], check=True)
    while sys.argv[2] == "stay" or not os.path.exists(sys.argv[1]):
        time.sleep(0.05)
    return 3

warm.STARTED_BY = {"stays": ("starts",)}
warm._loaded = {"stays": stays, "starts": started}.get
warm.APPS = "json"
print(os.getpid(), flush=True)
raise SystemExit(warm.run_warm("stays", sys.argv[1:]))
"""


def test_what_a_command_starts_is_a_fork(tmp_path: Path) -> None:
    place = tmp_path / "told"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(place), "end"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 3, done.stderr
    process, parent, *words = place.read_text().split(" ", 2)
    assert parent == done.stdout.strip() != process
    assert words == [f"starts {place} two words --option"]


def test_the_command_ends_with_the_process_that_forks(tmp_path: Path) -> None:
    place = tmp_path / "told"
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(place), "stay"], stdout=subprocess.DEVNULL) as process:
        try:
            assert wait_for(place.exists)
            main = int(Path(f"{place}.main").read_text())
            assert alive(main)
        finally:
            process.kill()
    assert wait_for(lambda: not alive(main))


def test_sigterm_is_passed_on(tmp_path: Path) -> None:
    place = tmp_path / "told"
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(place), "stay"], stdout=subprocess.DEVNULL) as process:
        try:
            assert wait_for(place.exists)
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait(30) != 0
        finally:
            process.kill()
    assert wait_for(lambda: not alive(int(Path(f"{place}.main").read_text())))


def test_pauses_grow_until_there_is_something_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    pauses = warm.Pauses()
    for seconds in (3, 3, 3, 3, 3, 3, 0.5, 3, 3):
        pauses.sleep(seconds)
    assert slept == pytest.approx([0.2, 0.4, 0.8, 1.6, 3, 3, 0.2, 0.2, 0.4])
    assert pauses.monotonic is time.monotonic
