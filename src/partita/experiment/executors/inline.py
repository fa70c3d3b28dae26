"""This process carries out jobs itself, one after another."""

from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from ...tensors import Tensors
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


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread: the number of threads affects the order of sums, and so the last bits of a result."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
