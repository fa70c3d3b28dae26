"""How is a run's database opened? For writing under a lock; for reading also where nothing can be written."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import quote

from filelock import lock_descriptor
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


def lock(folder: Path) -> IO[str]:
    """The lock of a folder, held until the file that is returned is closed, or until its process ends.

    A forked process inherits it: that process closing its copy leaves the lock as it is.
    """
    try:
        file = (folder / "lock").open("a")
        try:
            _claim(file, folder)
        except BaseException:
            file.close()
            raise
    except OSError as problem:
        raise PartitaError(f"Cannot write to {folder}: {problem.strerror}.") from problem
    return file


def is_locked(folder: Path) -> bool:
    """Whether a process holds the lock of a folder; not known, and so not said, where nothing can be written."""
    try:
        with (folder / "lock").open("r+") as file:
            return not lock_descriptor(file.fileno(), blocking=False)
    except OSError:
        return False


def _claim(file: IO[str], folder: Path) -> None:
    """Take the lock. Workers of a process that was killed hold it until they notice, so this waits for a moment."""
    until = time.monotonic() + PATIENCE
    # The descriptor is locked, not a path: closing it is all that is needed to give the lock back, also by a kill.
    while not lock_descriptor(file.fileno(), blocking=False):
        if time.monotonic() > until:
            raise BusyError(f"Another process is working on {folder}. Wait for it, or stop it.")
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
