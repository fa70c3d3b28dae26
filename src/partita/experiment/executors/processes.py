"""Workers carry out jobs: processes of one thread each."""

import multiprocessing
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from ...errors import PartitaError
from ...threads import one_thread
from ..executor import CarryOut, Executor
from ..setup import Setup
from ._cores import cores
from ._pool import Pool, Start
from .inline import Inline


@dataclass(frozen=True)
class Processes:
    """`workers` processes, by default one for each core; `start` is how they are started."""

    workers: int | None = None
    start: Start | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and not (isinstance(self.workers, int) and self.workers >= 1):
            raise PartitaError(f"workers is {self.workers}, but must be a whole number of at least 1.")
        if self.start not in (None, "fork", "spawn"):
            raise PartitaError(f"start is {self.start!r}, but must be 'fork' or 'spawn'.")

    @contextmanager
    def open(self, setup: Setup) -> Iterator[CarryOut]:
        count = workers_of_machine() if self.workers is None else self.workers
        if count == 1 or setup.experiment.device != "cpu" or multiprocessing.current_process().daemon:
            with Inline().open(setup) as carry_out:
                yield carry_out
            return
        with one_thread(), closing(Pool(setup, count, self.start or _usual_start())) as pool:
            yield pool.carry_out


def processes(*, workers: int | None = None, start: Start | None = None) -> Executor:
    """Worker processes on this machine, by default one for each core."""
    return Processes(workers, start)


def workers_of_machine() -> int:
    """One for each core that this process may use, or the value of PARTITA_WORKERS."""
    told = os.environ.get("PARTITA_WORKERS", "")
    if told:
        if not told.isdigit() or not int(told):
            raise PartitaError(f"PARTITA_WORKERS is {told!r}, but must be a whole number of at least 1.")
        return int(told)
    return cores()


def _usual_start() -> Start:
    """Fork is fast, but safe only on Linux. It is not used if multiprocessing was set to spawn."""
    told = multiprocessing.get_start_method(allow_none=True)
    return "fork" if sys.platform == "linux" and told != "spawn" else "spawn"
