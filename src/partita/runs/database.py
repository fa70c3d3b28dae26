"""How is a run's database opened? For writing under a lock; for reading also where nothing can be written."""

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import quote

from safetensors import SafetensorError

from ..errors import PartitaError

DATABASE = "run.sqlite"
PATIENCE = 1.0
"""Seconds in which a lock may come free."""


class BusyError(PartitaError):
    """Another process holds the lock of a run."""


def connect(folder: Path, name: str = DATABASE, *, write: bool = False) -> sqlite3.Connection:
    path = folder / name
    with explained(folder):
        if not write and not os.access(folder, os.W_OK):
            return _connect_to_read_only(path)
        connection = sqlite3.connect(path, isolation_level=None, timeout=30)
        try:
            if write:
                # The file keeps this mode, so that a reader need not set it, which would be writing.
                connection.execute("PRAGMA journal_mode = WAL")
            # What is committed survives a loss of power too.
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
        return connection


def _connect_to_read_only(path: Path) -> sqlite3.Connection:
    """Beside the file SQLite would make others, and cannot. Without a log nothing is missing from the file itself."""
    log = path.with_name(f"{path.name}-wal")
    how = "mode=ro" if log.exists() and log.stat().st_size else "immutable=1"
    return sqlite3.connect(f"file:{quote(str(path.resolve()))}?{how}", uri=True, isolation_level=None)


class Lock:
    """Held by one process at a time, until it is released or the process ends."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def release(self) -> None:
        self._file.close()


def lock(folder: Path) -> Lock:
    try:
        file = (folder / "lock").open("a")
        try:
            _claim(file)
        except BaseException:
            file.close()
            raise
    except BlockingIOError:
        raise BusyError(f"Another process is working on {folder}. Wait for it, or stop it.") from None
    except OSError as problem:
        raise PartitaError(f"Cannot write to {folder}: {problem.strerror}.") from problem
    return Lock(file)


def _claim(file: IO[str]) -> None:
    """Take the lock; the workers of a process that was killed hold it for a moment longer."""
    until = time.monotonic() + PATIENCE
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Database errors in the user's words."""
    try:
        yield
    except sqlite3.OperationalError as problem:
        if str(problem).startswith(("no such", "Could not decode")):
            raise _damaged(folder, problem) from problem
        raise PartitaError(
            f"The run in {folder} cannot be read or written: {problem}. Is the disk full or the folder read-only? What "
            "was committed before is safe."
        ) from problem
    except (sqlite3.DatabaseError, SafetensorError, ValueError) as problem:
        raise _damaged(folder, problem) from problem


def _damaged(folder: Path, problem: Exception) -> PartitaError:
    return PartitaError(f"The run in {folder} is damaged: {problem}. Restore {DATABASE} from a copy.")
