"""What if the disk is full? There is a whole run or none, and it goes on when there is room again."""

import resource
from collections.abc import Callable
from pathlib import Path

from partita.errors import PartitaError
from partita.runs.database import DATABASE

from .tally import Tally
from .victim import begin_or_go_on, code_of, digest, forked, verified

LARGEST = 8
"""The log beside a database is larger than the database itself becomes."""


def room(place: Path, trials: int, seed: int) -> Tally:
    """Runs are made where no file can exceed a size, for sizes evenly spread from nothing to more than is needed."""
    method, tally = "fedper", Tally()
    begin_or_go_on(place / "whole", method)
    expected, largest = digest(place / "whole"), (place / "whole" / DATABASE).stat().st_size
    for trial in range(trials):
        size = LARGEST * largest * trial // trials
        folder = place / str(size)
        code = code_of(forked(_with_room_for(folder, method, size)))
        there = (folder / DATABASE).exists()
        try:
            if there:
                verified(folder)
            begin_or_go_on(folder, method)
            verified(folder)
        except Exception as problem:
            tally.broken.append(f"{size} bytes: {problem!r}")
            continue
        if code or digest(folder) != expected:
            tally.broken.append(f"{size} bytes: " + ("an error that is not explained" if code else "other bits"))
        else:
            tally.held["stopped, whole and resumed" if there else "refused, and started again"] += 1
    return tally


def _with_room_for(folder: Path, method: str, size: int) -> Callable[[], None]:
    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        try:
            begin_or_go_on(folder, method)
        except PartitaError as problem:
            if "disk full" not in str(problem) and "Cannot" not in str(problem):
                raise

    return work
