"""Where does a run live? In a SQLite database, in which a commit lands as a whole or not at all."""

import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, fields
from pathlib import Path
from typing import IO, Any

from ..errors import PartitaError
from ..evaluation.scores import Record
from ..simulation.traffic import Traffic
from ..tensors import Tensors
from .blobs import checked, checksum, pack, unpack
from .database import DATABASE, connect, explained, lock

FORMAT = 3
UNFINISHED = "new.sqlite"
SCHEMA = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE rounds (stage TEXT, round INTEGER, seconds REAL, participants INTEGER, PRIMARY KEY (stage, round));
CREATE TABLE metrics (
    stage TEXT, round INTEGER, client INTEGER, model TEXT, role TEXT, count INTEGER, correct INTEGER, loss REAL
);
CREATE TABLE traffic (stage TEXT, round INTEGER, client INTEGER, "group" TEXT, down INTEGER, up INTEGER);
CREATE TABLE server (stage TEXT PRIMARY KEY, round INTEGER NOT NULL, state BLOB NOT NULL, checksum TEXT NOT NULL);
CREATE TABLE clients (
    stage TEXT, client INTEGER, round INTEGER NOT NULL, own BLOB NOT NULL, checksum TEXT NOT NULL,
    PRIMARY KEY (stage, client)
);
CREATE TABLE analyses (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE division (manifest BLOB NOT NULL);
CREATE INDEX metrics_by_round ON metrics (stage, round);
"""


class Store:
    """The database of one run. Whoever writes holds a lock, so that two processes cannot work on one run."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, held: IO[str] | None) -> None:
        self.folder, self._connection, self._lock = folder, connection, held
        self.closed = False

    @classmethod
    def create(
        cls,
        folder: Path,
        about: Mapping[str, object],
        analyses: Mapping[str, object] | None = None,
        manifest: Mapping[str, object] | None = None,
    ) -> "Store":
        """A new run; `about` and `analyses` are kept as JSON by key, the manifest of its division compressed."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise PartitaError(f"Cannot make the run's folder {folder}: {problem.strerror}.") from problem
        rows = [(key, json.dumps(value)) for key, value in {"format": FORMAT, **about}.items()]
        found = [(name, json.dumps(value)) for name, value in (analyses or {}).items()]
        divisions = [] if manifest is None else [(zlib.compress(json.dumps(manifest).encode()),)]
        held = lock(folder)
        try:
            if (folder / DATABASE).exists():
                raise PartitaError(f"{folder} holds a run already. Continue it with: partita resume {folder}")
            # Made under another name, so that a run is there as a whole or not at all.
            for rest in folder.glob(f"{UNFINISHED}*"):
                rest.unlink()
            with explained(folder), closing(connect(folder, UNFINISHED, write=True)) as connection:
                connection.executescript(SCHEMA)
                connection.executemany("INSERT INTO about VALUES (?, ?)", rows)
                connection.executemany("INSERT INTO analyses VALUES (?, ?)", found)
                connection.executemany("INSERT INTO division VALUES (?)", divisions)
            os.replace(folder / UNFINISHED, folder / DATABASE)
            return cls(folder, connect(folder, write=True), held)
        except BaseException:
            held.close()
            raise

    @classmethod
    def open(cls, folder: Path, *, write: bool = False) -> "Store":
        if not (folder / DATABASE).is_file():
            raise PartitaError(f"{folder} holds no run ({DATABASE} is missing).")
        held = lock(folder) if write else None
        try:
            store = cls(folder, connect(folder, write=write), held)
        except BaseException:
            if held:
                held.close()
            raise
        try:
            found = store.about.get("format")
            if found != FORMAT:
                raise PartitaError(f"{folder} was written in format {found}; this version reads format {FORMAT}.")
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        self.closed = True
        self._connection.close()
        if self._lock:
            self._lock.close()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def about(self) -> dict[str, Any]:
        with explained(self.folder):
            return {key: json.loads(value) for key, value in self._rows("SELECT key, value FROM about")}

    @property
    def done(self) -> bool:
        return bool(self.about["status"] == "done")

    def need_done(self) -> None:
        if not self.done:
            status = self.about["status"]
            raise PartitaError(f"{self.folder} is not done ({status}). Continue it with: partita resume {self.folder}")

    def note(self, key: str, value: object) -> None:
        with explained(self.folder), self._connection:
            self._connection.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (key, json.dumps(value)))

    @property
    def analyses(self) -> dict[str, Any]:
        """What was found out about the run beside its metrics, by name."""
        with explained(self.folder):
            return {name: json.loads(value) for name, value in self._rows("SELECT name, value FROM analyses")}

    def add_analysis(self, name: str, value: object) -> None:
        with explained(self.folder), self._connection:
            self._connection.execute("INSERT OR REPLACE INTO analyses VALUES (?, ?)", (name, json.dumps(value)))

    @property
    def manifest(self) -> dict[str, Any] | None:
        """The division of the data, where it is kept."""
        with explained(self.folder):
            for (blob,) in self._rows("SELECT manifest FROM division"):
                try:
                    found: dict[str, Any] = json.loads(zlib.decompress(blob))
                except zlib.error as problem:
                    raise ValueError(str(problem)) from problem
                return found
        return None

    def commit(
        self,
        stage: str,
        round: int,
        state: Tensors,
        own: Mapping[int, Tensors],
        rounds: Iterable[tuple[int, float, int]],
        records: Sequence[Record],
        traffic: Sequence[Traffic],
    ) -> None:
        """Everything up to a round, in one transaction."""
        with explained(self.folder), self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            found = connection.execute("SELECT round FROM server WHERE stage = ?", (stage,)).fetchone()
            if found and found[0] >= round:
                # An interruption between a commit and its noting: these rounds are in already.
                return
            row = (stage, round, *_with_checksum(state))
            connection.execute("INSERT OR REPLACE INTO server VALUES (?, ?, ?, ?)", row)
            rows = ((stage, client, round, *_with_checksum(tensors)) for client, tensors in own.items())
            connection.executemany("INSERT OR REPLACE INTO clients VALUES (?, ?, ?, ?, ?)", rows)
            connection.executemany("INSERT INTO rounds VALUES (?, ?, ?, ?)", [(stage, *each) for each in rounds])
            connection.executemany(
                "INSERT INTO metrics VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [(stage, *astuple(each)) for each in records]
            )
            connection.executemany(
                "INSERT INTO traffic VALUES (?, ?, ?, ?, ?, ?)", [(stage, *astuple(each)) for each in traffic]
            )

    def server(self, stage: str) -> tuple[int, Tensors] | None:
        """The round that was committed last, and the server's state then."""
        for number, blob, expected in self._rows("SELECT round, state, checksum FROM server WHERE stage = ?", stage):
            with explained(self.folder):
                return number, unpack(checked(blob, expected))
        return None

    def own(self, stage: str, client: int) -> Tensors | None:
        query = "SELECT own, checksum FROM clients WHERE stage = ? AND client = ?"
        for blob, expected in self._rows(query, stage, client):
            with explained(self.folder):
                return unpack(checked(blob, expected))
        return None

    def clients(self, stage: str) -> list[int]:
        return [client for (client,) in self._rows("SELECT client FROM clients WHERE stage = ? ORDER BY client", stage)]

    def records(self, stage: str) -> list[Record]:
        return [Record(*row) for row in self._rows(_select(Record, "metrics"), stage)]

    def traffic(self, stage: str) -> list[Traffic]:
        return [Traffic(*row) for row in self._rows(_select(Traffic, "traffic"), stage)]

    def rounds(self, stage: str) -> list[tuple[int, float, int]]:
        query = "SELECT round, seconds, participants FROM rounds WHERE stage = ? ORDER BY round"
        return [(number, seconds, count) for number, seconds, count in self._rows(query, stage)]

    def _rows(self, query: str, *values: object) -> list[Any]:
        with explained(self.folder):
            return self._connection.execute(query, values).fetchall()


def _select(kind: type[Record] | type[Traffic], table: str) -> str:
    columns = ", ".join(f'"{field.name}"' for field in fields(kind))
    return f"SELECT {columns} FROM {table} WHERE stage = ? ORDER BY rowid"


def _with_checksum(tensors: Tensors) -> tuple[bytes, str]:
    blob = pack(tensors)
    return blob, checksum(blob)
