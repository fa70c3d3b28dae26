"""A new database, made as a whole; and the lock of a run: one holder, and none after it was killed."""

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from partita.errors import PartitaError
from partita.runs import database
from partita.runs.database import DATABASE, UNFINISHED, BusyError, lock, new_database
from partita.runs.schema import SCHEMA

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "PATIENCE", 0.05)


def test_a_second_holder_is_told_whom_to_wait_for(tmp_path: Path) -> None:
    with lock(tmp_path):
        with pytest.raises(BusyError) as caught:
            lock(tmp_path)
        assert str(caught.value) == f"Another process is using {tmp_path}. Wait until it ends, or stop it."
    lock(tmp_path).close()


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PartitaError, match=rf"Cannot write to {tmp_path / 'file'}: Not a directory\."):
        lock(tmp_path / "file")


def test_a_new_database_waits_for_the_disk_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is complete, and before it is there."""
    told: list[str] = []

    class Traced(sqlite3.Connection):
        def __init__(self, *given: Any, **more: Any) -> None:
            super().__init__(*given, **more)
            self.set_trace_callback(lambda statement: told.append(statement.strip("; ")))

    def place(made: Path, folder: Path) -> None:
        told.append("in place")
        os.rename(made, folder)

    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Traced))
    monkeypatch.setattr(os, "fsync", lambda _: told.append("on the disk"))
    monkeypatch.setattr(os, "replace", place)
    with new_database(tmp_path, SCHEMA) as connection:
        connection.execute("INSERT INTO record VALUES ('key', 'value', 'checksum')")
    assert told[:3] == ["PRAGMA journal_mode = MEMORY", "PRAGMA synchronous = OFF", "BEGIN"]
    assert told[-5:] == [
        "INSERT INTO record VALUES ('key', 'value', 'checksum')",
        "COMMIT",
        "PRAGMA journal_mode = WAL",
        "on the disk",
        "in place",
    ]
    assert (told.count("COMMIT"), told.count("BEGIN")) == (1, 1)
    assert [path.name for path in tmp_path.iterdir()] == [DATABASE]


def test_a_new_database_that_fails_is_not_there(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), new_database(tmp_path, SCHEMA):
            _ = 1 / 0
        assert [path.name for path in tmp_path.iterdir()] == [UNFINISHED]
    with new_database(tmp_path, SCHEMA):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [DATABASE]


def close_inherited(held: Any) -> None:
    held.close()


@forks
def test_what_a_forked_process_closes_stays_locked_for_its_parent(tmp_path: Path) -> None:
    with lock(tmp_path) as held:
        child = multiprocessing.get_context("fork").Process(target=close_inherited, args=(held,))
        child.start()
        child.join()
        assert child.exitcode == 0
        with pytest.raises(BusyError):
            lock(tmp_path)


@forks
def test_the_lock_of_a_killed_process_comes_free_when_its_workers_end(tmp_path: Path) -> None:
    """The holder forks a worker, says so and waits; the worker ends when its standard input does."""
    program = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from partita.runs.database import lock\n"
        f"held = lock(Path({str(tmp_path)!r}))\n"
        "if os.fork() == 0:\n"
        "    sys.stdin.read()\n"
        "    os._exit(0)\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == b"ready\n"
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with pytest.raises(BusyError):
            lock(tmp_path)
        holder.stdin.close()
        # Its output ends when the worker does.
        assert holder.stdout.read() == b""
    lock(tmp_path).close()


def test_locks_need_no_module_that_windows_lacks() -> None:
    program = "import sys, torch; sys.modules['fcntl'] = None; import partita.runs.database"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
