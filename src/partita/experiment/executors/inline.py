"""This process carries out jobs itself, one after another."""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ...tensors import Tensors
from ...threads import one_thread
from ..executor import CarryOut, Executor
from ..jobs import ClientResult, Job
from ..setup import Setup


@dataclass(frozen=True)
class Inline:
    """Carries out jobs in this process; no other process is started."""

    @contextmanager
    def open(self, setup: Setup) -> Iterator[CarryOut]:
        def carry_out(jobs: Iterable[Job], state: Tensors) -> Generator[ClientResult, None, None]:
            for job in jobs:
                yield from job.run(setup)

        with one_thread():
            yield carry_out


def inline() -> Executor:
    """Do all work in this process."""
    return Inline()
