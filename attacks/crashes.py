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


def crashes(place: Path, trials: int, seed: int) -> Tally:
    """`kill -9` at random moments, over all methods in turn; then the run is resumed and compared with a whole one."""
    tally, draw = Tally(), random.Random(seed)
    methods = registry.names("algorithms")
    whole: dict[str, tuple[str, float]] = {}
    for trial in range(trials):
        method = methods[trial % len(methods)]
        if method not in whole:
            began = time.perf_counter()
            begin_or_go_on(place / f"{method}-whole", method)
            whole[method] = digest(place / f"{method}-whole"), time.perf_counter() - began
        expected, seconds = whole[method]
        folder = place / f"{method}-{trial}"
        child = forked(lambda folder=folder, method=method: begin_or_go_on(folder, method))  # type: ignore[misc]
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
    return tally
