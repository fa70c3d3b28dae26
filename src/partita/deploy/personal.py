"""Where does a site keep its personal part? In a database of its own, in two slots: accepted and pending.

A round is pending until the server says that it accepted it. A site that crashed, or whose reply was lost, goes back to
what was accepted; so the personal part and the shared part are always of the same round.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from ..errors import PartitaError
from ..runs.blobs import checked, checksum
from ..runs.database import connect_to, lock
from ..tensors import Tensors
from .cipher import Cipher
from .states import read, written

DATABASE = "personal.sqlite"
FORMAT = 2
"""The format of the database. States in another format cannot be read."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS plans (plan TEXT PRIMARY KEY, text TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS states (
    plan TEXT, slot TEXT, round INTEGER NOT NULL, blob INTEGER NOT NULL, parts INTEGER NOT NULL,
    PRIMARY KEY (plan, slot)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS parts (
    blob INTEGER, part INTEGER, bytes BLOB NOT NULL, checksum TEXT NOT NULL, PRIMARY KEY (blob, part)
);
CREATE TABLE IF NOT EXISTS evaluations (plan TEXT PRIMARY KEY, round INTEGER, kept INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS releases (plan TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
"""
UNUSED = "DELETE FROM parts WHERE blob NOT IN (SELECT blob FROM states)"
Slot = Literal["accepted", "pending", "received"]


class PersonalStateError(PartitaError):
    """The personal state cannot be read or written. The reason names places of the site, and stays there."""


@dataclass(frozen=True, eq=False)
class Model:
    """The model of a site: its personal part and the shared part, after a round."""

    round: int
    own: Tensors
    received: Tensors


class PersonalStore:
    """The personal states of one site, by plan. One process at a time writes to it; only its user may read it."""

    def __init__(self, folder: Path, key: Path | None = None, *, write: bool = True) -> None:
        """`key` is a file of 32 bytes, with which states are encrypted."""
        self.folder = folder
        self._cipher = Cipher(key) if key else None
        self._lock: IO[str] | None = None
        if write:
            try:
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._lock = lock(folder)
                # SQLite gives the files beside it the same mode.
                os.close(os.open(folder / DATABASE, os.O_CREAT, 0o600))
            except OSError as problem:
                raise PartitaError(f"Cannot keep personal state in {folder}: {problem.strerror}.") from problem
        elif not (folder / DATABASE).exists():
            raise PartitaError(f"There is no personal state in {folder}: the site has not run yet.")
        try:
            with self._explained():
                self._connection = connect_to(folder / DATABASE, write=write)
        except BaseException:
            if self._lock:
                self._lock.close()
            raise
        try:
            self._need_format()
            if write:
                with self._explained():
                    # What is replaced is overwritten: a personal part is not to be found in free pages.
                    self._connection.execute("PRAGMA secure_delete = ON")
                    self._connection.executescript(f"{SCHEMA}PRAGMA user_version = {FORMAT};")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._connection.close()
        if self._lock:
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

    @property
    def evaluated(self) -> list[str]:
        """The hashes of plans of which the site has a whole model."""
        with self._explained():
            return [str(plan) for [plan] in self._connection.execute("SELECT plan FROM evaluations ORDER BY plan")]

    def settle(self, plan: str, kept: int) -> None:
        """The server has accepted the state of round `kept` and none after it: that one is the accepted one now."""
        with self._writing() as connection:
            rounds = self._rounds(plan)
            if rounds.get("pending") == kept:
                connection.execute("DELETE FROM states WHERE plan = ? AND slot = 'accepted'", (plan,))
                connection.execute("UPDATE states SET slot = 'accepted' WHERE plan = ? AND slot = 'pending'", (plan,))
            elif rounds.get("accepted", 0) == kept:
                connection.execute("DELETE FROM states WHERE plan = ? AND slot = 'pending'", (plan,))
            else:
                raise self._out_of_step(rounds, kept)
            connection.execute(UNUSED)

    def own(self, plan: str, kept: int) -> Tensors:
        """The state after round `kept`, accepted or pending; before the first round there is none."""
        with self._explained():
            rounds = self._rounds(plan)
            for slot in ("pending", "accepted"):
                if rounds.get(slot) == kept:
                    return self._state(plan, slot)[1]
        if kept == 0 and "accepted" not in rounds:
            return {}
        raise self._out_of_step(rounds, kept)

    def keep(self, plan: str, round: int, own: Tensors) -> None:
        """The state after a round, pending until the server says that it accepted it."""
        if self._rounds(plan).get("accepted", 0) >= round:
            raise PartitaError(f"Round {round} is accepted already; its state is not replaced.")
        self._put(plan, "pending", round, own)

    def keep_received(self, plan: str, round: int, kept: int, received: Tensors) -> None:
        """The shared part after a round, so that the site has its whole model when the server is gone.

        It goes with the site's state after round `kept`.
        """
        self._put(plan, "received", round, received, kept)

    def model(self, plan: str) -> Model | None:
        """The site's model at the last evaluation; None before the first."""
        with self._explained():
            found = self._connection.execute("SELECT round, kept FROM evaluations WHERE plan = ?", (plan,)).fetchone()
            if found is None:
                return None
            _, received = self._state(plan, "received")
            rounds = self._rounds(plan)
        round, kept = found
        # A state of a later round may have replaced the one that was evaluated.
        known = kept if kept in rounds.values() else max(rounds.values(), default=0)
        return Model(round, self.own(plan, known), received)

    def restore(self, plan: str, round: int) -> int:
        """Let the last state stand for the state of a lost round; returns the round of the last state."""
        rounds = self._rounds(plan)
        held = max(rounds.values(), default=0)
        own = self.own(plan, held)
        with self._writing() as connection:
            connection.execute("DELETE FROM states WHERE plan = ? AND slot != 'received'", (plan,))
            connection.execute(UNUSED)
        self._put(plan, "accepted", round, own)
        return held

    def copy_to(self, path: Path) -> None:
        """Write a complete copy, also while another process writes; only the user may read it."""
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
        except OSError as problem:
            raise PartitaError(f"Cannot write {path}: {problem.strerror}. Give a new file.") from problem
        with self._explained(), closing(sqlite3.connect(path)) as target:
            self._connection.backup(target)

    def add_release(self, plan: str) -> None:
        """Count a release under differential privacy, before it leaves."""
        with self._writing() as connection:
            connection.execute("INSERT OR IGNORE INTO releases VALUES (?, 0)", (plan,))
            connection.execute("UPDATE releases SET count = count + 1 WHERE plan = ?", (plan,))

    @property
    def releases(self) -> int:
        """The number of releases under all plans together: they are about the same data."""
        with self._explained():
            return int(self._connection.execute("SELECT COALESCE(SUM(count), 0) FROM releases").fetchone()[0])

    def _put(self, plan: str, slot: Slot, round: int, tensors: Tensors, kept: int | None = None) -> None:
        # One part after another, so that a large state is in memory once.
        parts = written(tensors)
        if self._cipher:
            parts = self._cipher.sealed(parts, _place(plan, slot, round))
        with self._writing() as connection:
            [number] = connection.execute("SELECT COALESCE(MAX(blob), 0) + 1 FROM states").fetchone()
            connection.execute("DELETE FROM states WHERE plan = ? AND slot = ?", (plan, slot))
            connection.execute(UNUSED)
            count = 0
            for part in parts:
                connection.execute("INSERT INTO parts VALUES (?, ?, ?, ?)", (number, count, part, checksum(part)))
                count += 1
            connection.execute("INSERT INTO states VALUES (?, ?, ?, ?, ?)", (plan, slot, round, number, count))
            if kept is not None:
                connection.execute("INSERT OR REPLACE INTO evaluations VALUES (?, ?, ?)", (plan, round, kept))

    def _state(self, plan: str, slot: Slot) -> tuple[int, Tensors]:
        """The round and the tensors of a slot that holds a state."""
        round, number, count = self._connection.execute(
            "SELECT round, blob, parts FROM states WHERE plan = ? AND slot = ?", (plan, slot)
        ).fetchone()
        parts = self._parts(number, count, f"the state of round {round}")
        return round, read(self._cipher.opened(parts, _place(plan, slot, round)) if self._cipher else parts)

    def _parts(self, number: int, count: int, what: str) -> Iterator[bytes]:
        """All parts of a state in their order; each has its checksum."""
        query, found = "SELECT part, bytes, checksum FROM parts WHERE blob = ? ORDER BY part", 0
        for part, content, stored in self._connection.execute(query, (number,)):
            if part != found:
                break
            yield checked(content, stored, what)
            found += 1
        if found != count:
            raise ValueError(f"{what} has {found} of {count} parts")

    def _need_format(self) -> None:
        """Refuse what another version of Partita wrote."""
        with self._explained():
            [format] = self._connection.execute("PRAGMA user_version").fetchone()
            [tables] = self._connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
        if tables and format != FORMAT:
            raise PartitaError(
                f"The personal state in {self.folder} has the format {format}, and this version of Partita reads "
                f"{FORMAT}. Use the version that wrote it, or another folder for new plans."
            )

    def _rounds(self, plan: str) -> dict[str, int]:
        """The round of each slot of the personal part that holds something."""
        query = "SELECT slot, round FROM states WHERE plan = ? AND slot != 'received'"
        return dict(self._connection.execute(query, (plan,)).fetchall())

    def _out_of_step(self, rounds: dict[str, int], kept: int) -> PartitaError:
        held = " and ".join(f"round {number} ({slot})" for slot, number in sorted(rounds.items())) or "no round"
        return PartitaError(
            f"The server continues from round {kept} of this site, which holds {held}. One of them was restored from "
            "an older copy: restore the other to the same round, or start a new run."
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
            raise PersonalStateError(
                f"The personal state in {self.folder} cannot be read or written: {problem}. Is the disk full? What was "
                "accepted before is safe."
            ) from problem
        except (sqlite3.DatabaseError, ValueError, TypeError, RuntimeError) as problem:
            raise PersonalStateError(
                f"The personal state in {self.folder} is damaged: {problem}. Restore {DATABASE} from a copy."
            ) from problem


def _place(plan: str, slot: Slot, round: int) -> bytes:
    """What a state is of. A pending one becomes the accepted one as it is."""
    return f"{plan} {'shared' if slot == 'received' else 'own'} {round}".encode()
