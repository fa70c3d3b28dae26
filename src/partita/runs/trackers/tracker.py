"""What is a tracker? A tool's own run, which receives numbers after each round and is closed at the end."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class About:
    """What a tracker receives about a run when it is opened."""

    name: str
    settings: Mapping[str, Any]
    place: str | None = None
    """Where to write: a folder, an address or a project; None is the tool's own choice."""
    folder: Path | None = None
    """Where the run is kept, if it is."""
    before: str | None = None
    """The id under which the tool knows the run already, if it is resumed."""
    first: int = 1
    """The number of the round that comes first, of those before the run's own and these together."""


@dataclass(frozen=True)
class Tracker:
    """An open run of a tool."""

    id: str
    """The id by which the tool finds this run again."""
    log: Callable[[Mapping[str, float], int], None]
    """Numbers by name, after a number of rounds."""
    close: Callable[[str], None]
    """Receives the status: done, interrupted, or failed with the reason."""


def flat(settings: Mapping[str, Any], above: str = "") -> dict[str, object]:
    """Settings by dotted key."""
    found: dict[str, object] = {}
    for key, value in settings.items():
        found.update(flat(value, f"{above}{key}.") if isinstance(value, Mapping) else {f"{above}{key}": value})
    return found
