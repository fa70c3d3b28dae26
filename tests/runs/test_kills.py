"""Runs that are killed: at any moment, within a commit, while they are made; and those that lose their log."""

import os
import random
import signal
import sqlite3
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from partita.errors import PartitaError
from partita.experiment.events import Event, RoundEnded
from partita.runs.database import DATABASE
from partita.runs.session import Session
from partita.runs.store import Store
from repetition import repeated
from runs.kept import (
    DIGITS,
    FORK,
    SETTINGS,
    begin_or_go_on,
    child,
    digest,
    expected,
    experiment_of,
    forks,
    progress_of,
    resume,
    start,
    status,
)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, float]:
    """A run of digits that nothing disturbs, and how long it takes."""
    start(DIGITS, tmp_path_factory.mktemp("warm"), commit_every=2)
    began = time.perf_counter()
    folder = start(DIGITS, tmp_path_factory.mktemp("digits"), commit_every=2)
    return digest(folder), time.perf_counter() - began


@forks
@pytest.mark.parametrize("part", repeated(range(4)))
def test_a_kill_at_any_moment(tmp_path: Path, uninterrupted: tuple[str, float], part: int) -> None:
    """Twenty first kills in all, spread over the run, and more while it is resumed; below, while a run is made."""
    whole, seconds = uninterrupted
    draw = random.Random(part)
    for fifth in range(5):
        folder = tmp_path / str(fifth)
        for delay in (seconds * (fifth + draw.random()) / 6, seconds * draw.random(), 60):
            made = FORK.Event()
            process = child(begin_or_go_on, folder, made)
            assert made.wait(300)
            process.join(delay)
            process.kill()
            process.join()
        assert process.exitcode == 0
        assert status(folder) == "done"
        assert digest(resume(folder)) == whole


class Traced(sqlite3.Connection):
    """A connection that dies at one of its statements, counted from the first."""

    left = -1
    seen = 0

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.set_trace_callback(self._count)

    @staticmethod
    def _count(statement: str) -> None:
        Traced.seen += 1
        if Traced.seen == Traced.left:
            os.kill(os.getpid(), signal.SIGKILL)


def traced_start(folder: Path, left: int) -> int:
    """A run that dies at a statement; how many were made when the run was there."""
    Traced.left, Traced.seen = left, 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Traced))
        with Session.start(experiment_of(SETTINGS), folder, commit_every=2) as session:
            made = Traced.seen
            session.run()
    return made


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Statements until a run is there."""
    return traced_start(tmp_path_factory.mktemp("made"), -1)


@pytest.fixture(scope="module")
def log_when_made(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Bytes of the log when a run is there."""
    folder = tmp_path_factory.mktemp("log")
    log = folder / f"{DATABASE}-wal"
    with Session.start(experiment_of(SETTINGS), folder):
        return log.stat().st_size if log.exists() else 0


@pytest.fixture(scope="module")
def statements(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Of a whole run."""
    traced_start(tmp_path_factory.mktemp("traced"), -1)
    return Traced.seen


def killed(folder: Path, statement: int) -> None:
    process = child(traced_start, folder, statement)
    process.join()
    assert process.exitcode == -signal.SIGKILL


@forks
@pytest.mark.parametrize("at", [step / 18 for step in range(18)])
def test_a_kill_within_a_commit(tmp_path: Path, made: int, statements: int, at: float) -> None:
    """A process that dies at a statement; all of what it had begun is undone."""
    first = made + 1
    killed(tmp_path, first + int(at * (statements - first)))
    assert status(tmp_path) in ("running", "done")
    done = progress_of(tmp_path)
    assert done in (0, 2, 4, 5)
    with Store.open(tmp_path) as store:
        assert [number for number, _, _ in store.rounds("run")] == list(range(1, done + 1))
        assert {record.round for record in store.records("run")} == {each for each in (2, 4, 5) if each <= done}
    assert digest(resume(tmp_path)) == expected("fedper")


@forks
def test_a_kill_while_a_run_is_made(tmp_path: Path, made: int) -> None:
    """At each statement: it is there as a whole and can be resumed, or it can be started again."""
    for statement in {1, *range(2, made, 4), made}:
        folder = tmp_path / str(statement)
        killed(folder, statement)
        there = (folder / DATABASE).exists()
        assert digest(resume(folder) if there else start(SETTINGS, folder)) == expected("fedper"), statement


@forks
@pytest.mark.parametrize("share", [0.0, 0.3, 0.6, 0.9, 0.999])
def test_a_log_that_was_cut_off(tmp_path: Path, log_when_made: int, statements: int, share: float) -> None:
    """As a loss of power may leave it: commits are lost from the last one on, and no half of one stays."""
    killed(tmp_path, statements - 3)
    log = tmp_path / f"{DATABASE}-wal"
    more = log.stat().st_size - log_when_made
    assert more > 0
    os.truncate(log, log_when_made + int(share * more))
    assert progress_of(tmp_path) in (0, 2, 4, 5)
    assert digest(resume(tmp_path)) == expected("fedper")


def interruptible(folder: Path, finished: Any) -> None:
    def note(event: Event) -> None:
        assert isinstance(event, RoundEnded)
        finished.value = event.round
        if event.round == event.rounds:
            time.sleep(60)  # For a signal that comes late.

    start(DIGITS, folder, commit_every=5, on_event=note)


@forks
@pytest.mark.parametrize("part", repeated(range(5)))
def test_control_c(tmp_path: Path, uninterrupted: tuple[str, float], part: int) -> None:
    """At most the round in progress is lost."""
    whole, seconds = uninterrupted
    # Without a lock, which one that is interrupted might never give back.
    finished = FORK.RawValue("i", 0)
    process = child(interruptible, tmp_path, finished)
    while process.is_alive() and not finished.value:
        time.sleep(0.001)
    time.sleep(seconds * random.Random(part).random())
    before = finished.value
    assert process.pid is not None
    os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == 130
    assert status(tmp_path) == "interrupted"
    assert progress_of(tmp_path) >= max(before, finished.value)
    assert digest(resume(tmp_path)) == whole


@forks
def test_a_process_that_was_killed_holds_no_lock(tmp_path: Path, statements: int) -> None:
    killed(tmp_path, statements - 3)
    assert digest(resume(tmp_path)) == expected("fedper")


def started(folder: Path, barrier: Any, won: Any) -> None:
    barrier.wait()
    try:
        start(SETTINGS, folder)
    except PartitaError:
        return
    with won.get_lock():
        won.value += 1


@forks
def test_one_of_many_that_start_at_once(tmp_path: Path) -> None:
    for attempt in range(4):
        barrier, won = FORK.Barrier(3), FORK.Value("i", 0)
        processes = [child(started, tmp_path / str(attempt), barrier, won) for _ in range(3)]
        for process in processes:
            process.join()
        assert [process.exitcode for process in processes] == [0, 0, 0]
        assert won.value == 1
        assert digest(resume(tmp_path / str(attempt))) == expected("fedper")
