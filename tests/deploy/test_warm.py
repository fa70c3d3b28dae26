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
    while sys.argv[-1] == "lasting":
        time.sleep(0.05)
    raise SystemExit("which is told to nobody")

def stays():
    open(sys.argv[1] + ".main", "w").write(str(os.getpid()))
    last = "lasting" if sys.argv[2] == "lasting" else "--option"
    process = subprocess.Popen(["starts", sys.argv[1], "two words", last])
    assert last == "lasting" or not process.wait()
    while sys.argv[2] != "end" or not os.path.exists(sys.argv[1]):
        time.sleep(0.05)
    return 3

warm.STARTED_BY = {"stays": ("starts",)}
warm._loaded = {"stays": stays, "starts": started}.get
warm.STARTS_APPS = {"lasting": "starts"}.get(sys.argv[2])
warm.APPS = "json"
print(os.getpid(), flush=True)
raise SystemExit(warm.run_warm("stays", sys.argv[1:]))
"""


def test_what_a_command_starts_is_a_fork(tmp_path: Path) -> None:
    place = tmp_path / "told"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(place), "end"], capture_output=True, text=True, timeout=300
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


@pytest.mark.parametrize("who", ["the command", "who forks", "what starts apps"])
def test_none_stays_without_the_others(tmp_path: Path, who: str) -> None:
    """So an app whose SuperLink was killed is gone at once, and whoever waits for it knows."""
    place = tmp_path / "told"
    with subprocess.Popen([sys.executable, "-c", PROGRAM, str(place), "lasting"], stdout=subprocess.DEVNULL) as process:
        try:
            assert wait_for(lambda: place.exists() and bool(place.read_text()))
            main, started = int(Path(f"{place}.main").read_text()), int(place.read_text().split()[0])
            assert alive(started)
            os.kill({"the command": main, "who forks": process.pid, "what starts apps": started}[who], signal.SIGKILL)
            assert wait_for(lambda: not any(map(alive, (main, started, process.pid))))
        finally:
            process.kill()


def test_sigterm_is_passed_on_and_no_failure(tmp_path: Path) -> None:
    """The service manager stops a service so: it ends like a command that was interrupted."""
    place = tmp_path / "told"
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(place), "stay"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        try:
            assert wait_for(place.exists)
            os.kill(process.pid, signal.SIGTERM)
            assert process.wait(300) == -signal.SIGINT
        finally:
            process.kill()
    assert wait_for(lambda: not alive(int(Path(f"{place}.main").read_text())))


def test_an_interrupted_command_has_nothing_to_tell() -> None:
    program = """
from partita.deploy.warm import _be
def interrupted():
    raise KeyboardInterrupt
_be(interrupted, ["starts"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (130, "")


def test_pauses_grow_until_there_is_something_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    pauses = warm.Pauses()
    for seconds in (3, 3, 3, 3, 3, 3, 0.5, 3, 3):
        pauses.sleep(seconds)
    assert slept == pytest.approx([0.2, 0.4, 0.8, 1.6, 3, 3, 0.2, 0.2, 0.4])
    assert pauses.monotonic is time.monotonic
