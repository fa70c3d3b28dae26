"""What arrived at a site, and what left it? An append-only log: each entry holds the hash of the one before.

An entry is a line of JSON. To change, remove or insert one breaks the chain from there on. Entries cut off at
the end leave a chain that holds: note the last hash elsewhere, and `verify` compares it.
"""

import datetime
import errno
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import PartitaError
from ..parsing import parse_json

FIRST = "0" * 64
"""In the place of a hash before the first entry."""
RECOVERED = "recovered"
"""The event after a line that was cut off by a crash."""


class LogError(PartitaError):
    """The log cannot be written. The site then does nothing, since it could not prove it later."""


class AuditLog:
    """The log of one site. Every entry is on disk before anything else is done."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._file = os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600)
        except OSError as problem:
            raise PartitaError(f"Cannot write the audit log {path}: {problem.strerror}.") from problem
        try:
            whole = path.read_bytes()
            lines = whole.split(b"\n")
            entries = [entry for line in lines[-3:] if (entry := _parsed(line))]
            self._last = entries[-1]["hash"] if entries else FIRST
            self._count = len(lines) - 1
            if len(lines) > 1 and not entries:
                raise PartitaError(
                    f"The audit log {path} ends in lines that are not entries. Move it away to start a new log."
                )
            if lines[-1]:
                self._write(b"\n")
                self._count += 1
                self.add(RECOVERED, bytes=len(lines[-1]))
        except BaseException:
            os.close(self._file)
            raise

    def add(self, event: str, **facts: object) -> None:
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
        entry = {"line": self._count + 1, "time": now, "event": event, **facts, "previous": self._last}
        found = _hash(entry)
        self._write(json.dumps({**entry, "hash": found}).encode() + b"\n")
        self._last, self._count = found, self._count + 1

    def _write(self, line: bytes) -> None:
        """A whole line or nothing: what cannot be written is taken away again."""
        before = os.fstat(self._file).st_size
        try:
            if os.write(self._file, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file)
        except OSError as problem:
            with suppress(OSError):
                os.ftruncate(self._file, before)
            raise LogError(f"Cannot write the audit log {self.path}: {problem.strerror}.") from problem

    def close(self) -> None:
        os.close(self._file)


def entries_of(path: Path) -> Iterator[dict[str, Any]]:
    """The entries of a log, each checked against the one before; a mismatch is an error."""
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as problem:
        raise PartitaError(f"Cannot read the audit log {path}: {problem.strerror}.") from problem
    last, cut_off = FIRST, 0
    for number, line in enumerate(lines, 1):
        if number == len(lines) and not line:
            break
        entry = _parsed(line)
        if entry is None:
            cut_off = number
            continue
        body = {key: value for key, value in entry.items() if key != "hash"}
        if _hash(body) != entry["hash"] or entry["previous"] != last or entry["line"] != number:
            raise PartitaError(f"{path}: line {number} does not fit the line before it. The log was changed.")
        if cut_off and (entry["event"] != RECOVERED or cut_off != number - 1):
            raise PartitaError(f"{path}: line {cut_off} is not an entry. The log was changed.")
        last, cut_off = entry["hash"], 0
        yield entry
    if cut_off and cut_off != len(lines):
        raise PartitaError(f"{path}: line {cut_off} is not an entry. The log was changed.")


def verify(path: Path, last: str | None = None) -> tuple[int, str]:
    """How many entries a log has, and the hash of the last; `last` must be the hash of one of them."""
    hashes = [str(entry["hash"]) for entry in entries_of(path)]
    if last is not None and last not in hashes:
        raise PartitaError(f"{path} has no entry with the hash {last[:12]}. Entries were cut off or replaced.")
    return len(hashes), hashes[-1] if hashes else FIRST


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        entry = parse_json(line)
    except ValueError:
        return None
    whole = isinstance(entry, dict) and {"line", "event", "previous", "hash"} <= entry.keys()
    return entry if whole else None


def _hash(entry: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entry, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
