"""What happens in a federation now? A journal beside the run: which sites are asked, answer and are connected.

What is committed is in the run's database; the journal has the rest, with its time. A line is a JSON object.
"""

import datetime
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from ..errors import PartitaError

JOURNAL = "federation.log"


class Note(Protocol):
    """Notes an event."""

    def __call__(self, event: str, **facts: object) -> None: ...


def no_note(event: str, **facts: object) -> None:
    """Note nothing."""


class Journal:
    """The journal of a run. The server's process appends to it."""

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(folder / JOURNAL, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        except OSError as problem:
            raise PartitaError(f"Cannot write the journal in {folder}: {problem.strerror}.") from problem
        self._online: list[str] | None = None

    def note(self, event: str, **facts: object) -> None:
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
        os.write(self._file, json.dumps({"time": now, "event": event, **facts}).encode() + b"\n")

    def online(self, sites: list[str]) -> None:
        """Which sites are connected; only a change is noted."""
        if sites != self._online:
            self._online = sites
            self.note("connected", sites=sites)

    def close(self) -> None:
        os.close(self._file)


def journal_of(folder: Path) -> Iterator[dict[str, Any]]:
    """The entries, without a line that is not complete yet."""
    try:
        lines = (folder / JOURNAL).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as problem:
        raise PartitaError(f"Cannot read the journal in {folder}: {problem}.") from problem
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and isinstance(entry.get("event"), str) and isinstance(entry.get("time"), str):
            yield entry
