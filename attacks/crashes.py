"""What is left of a run that is killed? Nothing is lost but the round in progress, whatever the method."""

import os
import random
import signal
import time
from pathlib import Path

from partita import registry
from partita.runs.database import DATABASE

from .tally import Tally
from .victim import begin_or_go_on, code_of, digest, forked, verified

SOONER = 0.7
EARLY = 8
"""One of so many kills may come before the run exists; all others come afterwards."""


def crashes(place: Path, trials: int, seed: int) -> Tally:
    """`kill -9` at random moments, over all methods in turn; then the run is resumed and compared with a whole one."""
    tally, draw = Tally(), random.Random(seed)
    methods = registry.names("algorithms")
    whole: dict[str, tuple[str, float]] = {}
    begin_or_go_on(place / "first", methods[0])  # Modules that it imports would be part of the time of another.
    for trial in range(trials):
        method = methods[trial % len(methods)]
        if method not in whole:
            child = begun(place / f"{method}-whole", method)
            wait_for(place / f"{method}-whole" / DATABASE, child)
            began = time.perf_counter()
            code_of(child)
            whole[method] = digest(place / f"{method}-whole"), time.perf_counter() - began
        expected, seconds = whole[method]
        folder = place / f"{method}-{trial}"
        child = begun(folder, method)
        if trial % EARLY:
            wait_for(folder / DATABASE, child)
        time.sleep(seconds * draw.random())
        os.kill(child, signal.SIGKILL)
        killed = code_of(child) == -signal.SIGKILL
        found = "resumed" if (folder / DATABASE).exists() else "started again"
        try:
            begin_or_go_on(folder, method)
            verified(folder)
        except Exception as problem:
            tally.broken.append(f"{method}, trial {trial}: {problem!r}")
            continue
        if digest(folder) != expected:
            tally.broken.append(f"{method}, trial {trial}: other bits than without the kill")
        else:
            tally.held[f"{found}, the same bits" if killed else "over before the kill, the same bits"] += 1
        if not killed:
            # The whole run took longer, since the machine had more to do then.
            whole[method] = expected, SOONER * seconds
    return tally


def begun(folder: Path, method: str) -> int:
    """A process that makes a run; its id."""
    return forked(lambda: begin_or_go_on(folder, method))


def wait_for(path: Path, child: int) -> None:
    """Return when the file is there, or the process has ended without it."""
    while not path.exists() and os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        time.sleep(0.001)
