"""How is a run's database opened? For writing, under a lock; for reading, from read-only folders too."""

import math
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO
from urllib.parse import quote

from filelock import lock_descriptor
from safetensors import SafetensorError

from ..errors import PartitaError

DATABASE = "run.sqlite"
UNFINISHED = "new.sqlite"
PATIENCE = 1.0
"""Seconds to wait for a lock."""


class BusyError(PartitaError):
    """Another process holds the lock of a run."""


def connect(folder: Path, *, write: bool = False) -> sqlite3.Connection:
    """The database of a run."""
    with explained(folder):
        return connect_to(folder / DATABASE, write=write)


def connect_to(path: Path, *, write: bool) -> sqlite3.Connection:
    if not write and not os.access(path.parent, os.W_OK):
        return _with_functions(_connect_to_read_only(path))
    connection = _with_functions(sqlite3.connect(path, isolation_level=None, timeout=30))
    try:
        if write:
            # The mode is stored in the file, so readers, which may not write, do not set it.
            connection.execute("PRAGMA journal_mode = WAL")
        # Commits survive a power failure.
        connection.execute("PRAGMA synchronous = FULL")
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def new_database(folder: Path, schema: str) -> Iterator[sqlite3.Connection]:
    """Make a database and fill it inside the context. It then exists as a whole, on the disk, or not at all."""
    for rest in folder.glob(f"{UNFINISHED}*"):
        rest.unlink()
    path = folder / UNFINISHED
    with explained(folder):
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            # Nothing waits for the disk until the file is complete: a file that is not is made again.
            connection.executescript(f"PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF; BEGIN; {schema}")
            yield connection
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = WAL")
        with path.open("rb+") as file:
            os.fsync(file.fileno())
    os.replace(path, folder / DATABASE)


def _with_functions(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Not every SQLite is built with mathematical functions."""
    connection.create_function("root", 1, math.sqrt, deterministic=True)
    return connection


def _connect_to_read_only(path: Path) -> sqlite3.Connection:
    """SQLite would create files beside the database, and cannot. If there is no log, the file itself is complete."""
    log = path.with_name(f"{path.name}-wal")
    how = "mode=ro" if log.exists() and log.stat().st_size else "immutable=1"
    return sqlite3.connect(f"file:{quote(str(path.resolve()))}?{how}", uri=True, isolation_level=None)


def lock(folder: Path) -> IO[str]:
    """Lock a folder until the returned file is closed or the process ends.

    A forked process inherits the lock; closing its copy of the file does not release it.
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
    """Take the lock. The workers of a killed process hold it until they exit, so this waits for a moment."""
    until = time.monotonic() + PATIENCE
    # The lock is on the descriptor, not on a path, so closing it releases the lock, also if the process is killed.
    while not lock_descriptor(file.fileno(), blocking=False):
        if time.monotonic() > until:
            raise BusyError(f"Another process is using {folder}. Wait until it ends, or stop it.")
        time.sleep(0.02)


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Turn database errors into messages for the user."""
    try:
        yield
    except sqlite3.OperationalError as problem:
        if str(problem).startswith(("no such", "Could not decode")):
            raise _damaged(folder, problem) from problem
        raise PartitaError(
            f"The run in {folder} cannot be read or written: {problem}. Is the disk full or the folder read-only? "
            "Earlier commits are safe."
        ) from problem
    except (sqlite3.DatabaseError, SafetensorError, ValueError) as problem:
        raise _damaged(folder, problem) from problem


def _damaged(folder: Path, problem: Exception) -> PartitaError:
    return PartitaError(f"The run in {folder} is damaged: {problem}. Restore {DATABASE} from a copy.")
