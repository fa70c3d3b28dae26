"""How long has a processor worked for this process and those that it started? Other work beside does not count."""

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds() -> float | None:
    """Of this process and all that descend from it; None where it cannot be read."""
    here = os.getpid()
    try:
        entries = [_read(path) for path in Path("/proc").glob("[0-9]*")]
    except OSError:
        return None
    known = {process: (parent, ticks) for process, parent, ticks in filter(None, entries)}
    family = {here}
    while more := {process for process, (parent, _) in known.items() if parent in family} - family:
        family |= more
    return sum(known[process][1] for process in family if process in known) / TICKS


def _read(folder: Path) -> tuple[int, int, int] | None:
    """A process, its parent, and its ticks, with those of children that it has waited for."""
    try:
        fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None  # It has just ended.
    return int(folder.name), int(fields[1]), sum(map(int, fields[11:15]))
