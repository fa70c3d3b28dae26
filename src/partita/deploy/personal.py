"""Where does a site keep its personal part? In a database of its own, in two slots: accepted and pending.

A round is pending until the server says that it accepted it. A site that crashed, or whose reply was lost, goes back to
what was accepted; so the personal part and the shared part are always of the same round.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from ..errors import PartitaError
from ..extras import optional
from ..runs.blobs import joined, pack, parts_of, unpack
from ..runs.database import connect, lock
from ..tensors import Tensors

DATABASE = "personal.sqlite"
KEY = 32
"""Bytes of a key."""
NONCE = 12
SCHEMA = """
CREATE TABLE IF NOT EXISTS plans (plan TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS states (
    plan TEXT, slot TEXT, round INTEGER NOT NULL, parts INTEGER NOT NULL, PRIMARY KEY (plan, slot)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS parts (
    plan TEXT, round INTEGER, part INTEGER, bytes BLOB NOT NULL, checksum TEXT NOT NULL,
    PRIMARY KEY (plan, round, part)
);
"""


class PersonalStore:
    """What one site keeps, by plan. One process at a time works with it; nobody but its user may read it."""

    def __init__(self, folder: Path, key: Path | None = None) -> None:
        """`key` is a file of 32 bytes, with which states are encrypted."""
        self.folder = folder
        self._cipher = _Cipher(key) if key else None
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = lock(folder)
            # SQLite gives the files beside it the same mode.
            os.close(os.open(folder / DATABASE, os.O_CREAT, 0o600))
        except OSError as problem:
            raise PartitaError(f"Cannot keep personal state in {folder}: {problem.strerror}.") from problem
        try:
            self._connection = connect(folder, DATABASE, write=True)
            with self._explained():
                # What is replaced is overwritten: a personal part is not to be found in free pages.
                self._connection.execute("PRAGMA secure_delete = ON")
                self._connection.executescript(SCHEMA)
        except BaseException:
            self._lock.close()
            raise

    def close(self) -> None:
        self._connection.close()
        self._lock.close()

    def __enter__(self) -> "PersonalStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def add_plan(self, plan: str, text: str) -> None:
        with self._writing() as connection:
            connection.execute("INSERT OR IGNORE INTO plans VALUES (?, ?)", (plan, text))

    def plan(self, plan: str) -> str | None:
        """The text of a plan that was introduced before."""
        with self._explained():
            found = self._connection.execute("SELECT text FROM plans WHERE plan = ?", (plan,)).fetchone()
            return str(found[0]) if found else None

    def settle(self, plan: str, kept: int) -> None:
        """The server has accepted the state of round `kept` and none after it: that one is the accepted one now."""
        with self._writing() as connection:
            rounds = self._rounds(plan)
            if rounds.get("pending") == kept:
                connection.execute("DELETE FROM states WHERE plan = ? AND slot = 'accepted'", (plan,))
                connection.execute("UPDATE states SET slot = 'accepted' WHERE plan = ?", (plan,))
            elif rounds.get("accepted", 0) == kept:
                connection.execute("DELETE FROM states WHERE plan = ? AND slot = 'pending'", (plan,))
            else:
                raise self._out_of_step(rounds, kept)
            connection.execute("DELETE FROM parts WHERE plan = ? AND round != ?", (plan, kept))

    def own(self, plan: str, kept: int) -> Tensors:
        """The state after round `kept`, accepted or pending; before the first round there is none."""
        with self._explained():
            rounds = self._rounds(plan)
            if kept not in rounds.values():
                if kept == 0 and "accepted" not in rounds:
                    return {}
                raise self._out_of_step(rounds, kept)
            found = self._connection.execute(
                "SELECT part, bytes, checksum FROM parts WHERE plan = ? AND round = ? ORDER BY part", (plan, kept)
            ).fetchall()
            [count] = self._connection.execute(
                "SELECT parts FROM states WHERE plan = ? AND round = ?", (plan, kept)
            ).fetchone()
            blob = joined(found, count, f"the state of round {kept}")
            tensors = unpack(self._cipher.opened(blob, plan, kept) if self._cipher else blob)
        # In memory of its own: where a tensor begins decides the last bits of sums.
        return {name: tensor.clone() for name, tensor in tensors.items()}

    def keep(self, plan: str, round: int, own: Tensors) -> None:
        """The state after a round, pending until the server says that it accepted it."""
        blob = pack(own)
        if self._cipher:
            blob = self._cipher.sealed(blob, plan, round)
        parts = [(plan, round, *part) for part in parts_of(blob)]
        with self._writing() as connection:
            if self._rounds(plan).get("accepted", 0) >= round:
                raise PartitaError(f"Round {round} is accepted already; its state is not replaced.")
            connection.execute(
                "DELETE FROM parts WHERE plan = ? AND round IN "
                "(SELECT round FROM states WHERE plan = ? AND slot = 'pending')",
                (plan, plan),
            )
            connection.executemany("INSERT INTO parts VALUES (?, ?, ?, ?, ?)", parts)
            connection.execute("INSERT OR REPLACE INTO states VALUES (?, 'pending', ?, ?)", (plan, round, len(parts)))

    def _rounds(self, plan: str) -> dict[str, int]:
        """The round of each slot that holds something."""
        return dict(self._connection.execute("SELECT slot, round FROM states WHERE plan = ?", (plan,)).fetchall())

    def _out_of_step(self, rounds: dict[str, int], kept: int) -> PartitaError:
        held = " and ".join(f"round {number} ({slot})" for slot, number in sorted(rounds.items())) or "no round"
        return PartitaError(
            f"The server goes on from round {kept} of this site, which holds {held}. One of them was restored from an "
            "older copy: restore the other to the same round, or start a new run."
        )

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._explained(), self._connection as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as problem:
            raise PartitaError(
                f"The personal state in {self.folder} cannot be read or written: {problem}. Is the disk full? What was "
                "accepted before is safe."
            ) from problem
        except (sqlite3.DatabaseError, SafetensorError, ValueError) as problem:
            raise PartitaError(
                f"The personal state in {self.folder} is damaged: {problem}. Restore {DATABASE} from a copy."
            ) from problem


class _Cipher:
    """AES-256 in GCM mode. A state that was put in the place of another one is not opened."""

    def __init__(self, key: Path) -> None:
        try:
            secret = key.read_bytes()
        except OSError as problem:
            raise PartitaError(f"Cannot read the key {key}: {problem.strerror}.") from problem
        if len(secret) != KEY:
            raise PartitaError(f"The key {key} has {len(secret)} bytes. Make one: openssl rand -out {key} {KEY}")
        self._cipher: Any = optional("cryptography.hazmat.primitives.ciphers.aead", "partita[deploy]").AESGCM(secret)

    def sealed(self, blob: bytes, plan: str, round: int) -> bytes:
        nonce = os.urandom(NONCE)
        sealed: bytes = self._cipher.encrypt(nonce, blob, f"{plan} {round}".encode())
        return nonce + sealed

    def opened(self, blob: bytes, plan: str, round: int) -> bytes:
        invalid: type[Exception] = optional("cryptography.exceptions", "partita[deploy]").InvalidTag
        try:
            opened: bytes = self._cipher.decrypt(blob[:NONCE], blob[NONCE:], f"{plan} {round}".encode())
        except invalid as problem:
            raise ValueError(f"the key does not open the state of round {round}") from problem
        return opened
