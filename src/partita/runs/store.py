"""Where is a run stored? In a SQLite database; a commit is one transaction."""

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ..errors import PartitaError
from ..evaluation.outcomes import Outcomes
from ..evaluation.scores import Record
from ..experiment.left_out import LeftOut
from ..experiment.traffic import Traffic
from ..parsing import parse_json
from .blobs import checked, checksum, checksum_of_rows, compressed, decompressed, joined, pack, parts_of, unpack
from .commit import Commit
from .database import DATABASE, connect, explained, lock, new_database
from .folders import need_new
from .record import FORMAT, RunRecord
from .schema import NUMBERS, PROGRAMS, SCHEMA, columns_of, need_plain_tables

if TYPE_CHECKING:
    from ..tensors import Tensors

SERVER = -1
"""The client number under which the server's state is stored."""
ANALYSED = "analyses"
"""The key of the names of all stored analyses, so that none can be lost unnoticed."""
RECORD, ANALYSES = "SELECT key, value, checksum FROM record", "SELECT name, value, checksum FROM analyses"


class Store:
    """The database of one run. A writer holds a lock, so that two processes cannot work on one run."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, held: IO[str] | None) -> None:
        self.folder, self._connection, self._lock = folder, connection, held
        self.closed = False

    @classmethod
    def create(
        cls,
        folder: Path,
        record: RunRecord,
        analyses: Mapping[str, object] | None = None,
        manifest: Mapping[str, object] | None = None,
    ) -> "Store":
        """Create a run, with the manifest of its division."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise PartitaError(f"Cannot make the run's folder {folder}: {problem.strerror}.") from problem
        found = analyses or {}
        values = {"format": FORMAT, ANALYSED: sorted(found), **record.as_dict()}
        divisions = [] if manifest is None else [(blob := compressed(json.dumps(manifest)), checksum(blob))]
        held = lock(folder)
        try:
            need_new(folder)
            with new_database(folder, SCHEMA) as connection:
                connection.executemany("INSERT INTO record VALUES (?, ?, ?)", map(_row, values, values.values()))
                connection.executemany("INSERT INTO analyses VALUES (?, ?, ?)", map(_row, found, found.values()))
                connection.executemany("INSERT INTO division VALUES (?, ?)", divisions)
            return cls(folder, connect(folder, write=True), held)
        except BaseException:
            held.close()
            raise

    @classmethod
    def open(cls, folder: Path, *, write: bool = False) -> "Store":
        """Open a run whose record can be read."""
        store = cls.connected(folder, write=write)
        try:
            _ = store.record
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def connected(cls, folder: Path, *, write: bool = False) -> "Store":
        """Open a run without reading its record, for callers that read it next or have read it before."""
        if not (folder / DATABASE).is_file():
            raise PartitaError(f"{folder} holds no run ({DATABASE} is missing). List your runs with: partita runs")
        held = lock(folder) if write else None
        try:
            store = cls(folder, connect(folder, write=write), held)
        except BaseException:
            if held:
                held.close()
            raise
        try:
            with explained(folder):
                need_plain_tables(store.select(PROGRAMS))
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._connection.close()
            self.release()

    def discard(self) -> None:
        """Remove a run that holds nothing, and its folder if that is empty then."""
        self._connection.close()
        for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", "lock"):
            (self.folder / name).unlink(missing_ok=True)
        with suppress(OSError):
            self.folder.rmdir()
        self.close()

    def release(self) -> None:
        """Release the lock, so that another process can write; this one only reads from now on."""
        if self._lock:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything read inside the context is one snapshot, whatever another process commits meanwhile."""
        with explained(self.folder):
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                # Some errors end a transaction by themselves.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")

    @property
    def record(self) -> RunRecord:
        with explained(self.folder):
            return RunRecord.read(self._older() or self.values(RECORD), str(self.folder))

    def note(self, **changes: object) -> None:
        """Change fields of the record."""
        with self.writing() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO record VALUES (?, ?, ?)", map(_row, changes, changes.values())
            )

    @property
    def analyses(self) -> dict[str, Any]:
        """The results of analyses, by name."""
        with explained(self.folder):
            return self.values(ANALYSES)

    def add_analysis(self, name: str, value: object) -> None:
        """Write what was found out; that it could not be found out before is no longer true."""
        with self.writing() as connection:
            connection.execute("DELETE FROM analyses WHERE name = ?", (f"{name}_failed",))
            connection.execute("INSERT OR REPLACE INTO analyses VALUES (?, ?, ?)", _row(name, value))
            names = [each for (each,) in connection.execute("SELECT name FROM analyses ORDER BY name")]
            connection.execute("INSERT OR REPLACE INTO record VALUES (?, ?, ?)", _row(ANALYSED, names))

    @property
    def manifest(self) -> dict[str, Any] | None:
        """The division of the data, if it is stored."""
        with explained(self.folder):
            for blob, expected in self.select("SELECT manifest, checksum FROM division"):
                found: dict[str, Any] = parse_json(decompressed(checked(blob, expected, "the division")))
                return found
        return None

    def commit(self, commit: Commit) -> None:
        """Write everything up to a round in one transaction."""
        stage = commit.stage
        with self.writing() as connection:
            found = connection.execute(
                "SELECT round FROM states WHERE stage = ? AND client = ?", (stage, SERVER)
            ).fetchone()
            if found and found[0] >= commit.round:
                # An earlier attempt was interrupted just after the commit: these rounds are stored already.
                return
            for client, tensors in ((SERVER, commit.state), *commit.own.items()):
                parts = [(stage, client, *part) for part in parts_of(pack(tensors))]
                connection.execute("DELETE FROM parts WHERE stage = ? AND client = ?", (stage, client))
                connection.executemany("INSERT INTO parts VALUES (?, ?, ?, ?, ?)", parts)
                connection.execute(
                    "INSERT OR REPLACE INTO states VALUES (?, ?, ?, ?)", (stage, client, commit.round, len(parts))
                )
            numbers: dict[str, list[tuple[Any, ...]]] = {
                "rounds": list(commit.rounds),
                "metrics": list(map(attrgetter(*NUMBERS["metrics"]), commit.records)),
                "traffic": list(map(attrgetter(*NUMBERS["traffic"]), commit.traffic)),
                "left_out": list(map(attrgetter(*NUMBERS["left_out"]), commit.left_out)),
                "outcomes": list(map(attrgetter(*NUMBERS["outcomes"]), commit.outcomes)),
            }
            for table, rows in numbers.items():
                places = ", ".join("?" * (1 + len(NUMBERS[table])))
                connection.executemany(f"INSERT INTO {table} VALUES ({places})", [(stage, *row) for row in rows])
            connection.execute(
                "INSERT INTO commits SELECT ?, ?, count(*), ? FROM states WHERE stage = ?",
                (stage, commit.round, checksum_of_rows(numbers.values()), stage),
            )

    def server(self, stage: str) -> "tuple[int, Tensors] | None":
        """The round that was committed last, and the server's state then."""
        for (number,) in self.select("SELECT round FROM states WHERE stage = ? AND client = ?", stage, SERVER):
            state = self.own(stage, SERVER)
            return None if state is None else (number, state)
        return None

    def own(self, stage: str, client: int) -> "Tensors | None":
        """The state of a client."""
        with explained(self.folder):
            found = self.packed(stage, client)
            return None if found is None else unpack(found)

    def packed(self, stage: str, client: int) -> bytes | None:
        """A state as stored bytes, after checking their checksums."""
        with explained(self.folder):
            for (count,) in self.select("SELECT parts FROM states WHERE stage = ? AND client = ?", stage, client):
                query = "SELECT part, bytes, checksum FROM parts WHERE stage = ? AND client = ? ORDER BY part"
                who = "the server" if client == SERVER else f"client {self.record.name_of(client)}"
                return joined(self.select(query, stage, client), count, f"the state of {who} ({stage})")
        return None

    def clients(self, stage: str) -> list[int]:
        query = "SELECT client FROM states WHERE stage = ? AND client != ? ORDER BY client"
        return [client for (client,) in self.select(query, stage, SERVER)]

    def records(self, stage: str) -> list[Record]:
        return [Record(*row) for row in self.numbers("metrics", stage)]

    def traffic(self, stage: str) -> list[Traffic]:
        return [Traffic(*row) for row in self.numbers("traffic", stage)]

    def left_out(self, stage: str) -> list[LeftOut]:
        return [LeftOut(*row) for row in self.numbers("left_out", stage)]

    def outcomes(self, stage: str) -> list[Outcomes]:
        return [Outcomes(*row) for row in self.numbers("outcomes", stage)]

    def rounds(self, stage: str) -> list[tuple[int, float, int]]:
        return [(number, seconds, count) for number, seconds, count in self.numbers("rounds", stage)]

    def numbers(self, table: str, stage: str, rounds: tuple[int, int] | None = None) -> list[Any]:
        """Rows of a table of numbers in the order of writing, of all rounds or of a range of rounds."""
        span = " AND round BETWEEN ? AND ?" if rounds else ""
        query = f"SELECT {columns_of(table)} FROM {table} WHERE stage = ?{span} ORDER BY rowid"
        return self.select(query, stage, *(rounds or ()))

    def select(self, query: str, *values: object) -> list[Any]:
        with explained(self.folder):
            return self._connection.execute(query, values).fetchall()

    def stream(self, query: str, *values: object) -> Iterator[Any]:
        """The rows of a query, of which one is in memory at a time."""
        with explained(self.folder):
            yield from self._connection.execute(query, values)

    def values(self, query: str) -> dict[str, Any]:
        """JSON values by key, after checking their checksums."""
        found = self.select(query)
        return {key: parse_json(checked(str(value).encode(), expected, key)) for key, value, expected in found}

    def _older(self) -> dict[str, Any] | None:
        """The record of a run in a format up to 3."""
        if not self.select("SELECT name FROM sqlite_master WHERE type = 'table' AND name = 'about'"):
            return None
        return {key: parse_json(value) for key, value in self.select("SELECT key, value FROM about")}

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction."""
        with explained(self.folder), self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection


def _row(key: str, value: object) -> tuple[str, str, str]:
    text = json.dumps(value)
    return key, text, checksum(text.encode())
