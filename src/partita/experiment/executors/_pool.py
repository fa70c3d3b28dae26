"""How do worker processes share jobs? Each gets one at a time; the job of one that dies is done by another."""

import multiprocessing
import sys
import types
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import chain, islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Literal

from ...errors import PartitaError
from ...tensors import Tensors
from ..jobs import ClientResult, Job
from ..setup import Setup
from ._signals import signals_held_back, signals_ignored
from ._transport import Message, pack, receive
from ._worker import pack_setup, results_in, work

ATTEMPTS = 3
"""How often a job is started if the workers that do it die."""
AHEAD = 8
"""The number of jobs among which a worker gets one for a client that it had before. They hold clients' states."""
Start = Literal["fork", "spawn"]


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection
    setup: Message | None
    """The setup, to be sent first to a spawned worker."""
    state: Message | None = None
    """The server's state that the worker has."""
    job: Message | None = None
    """The job it is working on."""
    attempts: int = 0
    """How often that job was started."""
    proven: bool = False
    """Whether it has answered before."""

    def send(self, job: Message, state: Message) -> None:
        """A job, and before it what the worker lacks."""
        order = {"setup": self.setup, "state": None if state is self.state else state, "job": job}
        messages = {name: message for name, message in order.items() if message}
        assert self.process.pid
        # A dead worker cannot receive anything. This is noticed when the pool waits for its answer.
        with suppress(OSError, RuntimeError):
            self.connection.send(list(messages))
            for message in messages.values():
                message.send(self.connection, self.process.pid)
        self.setup, self.state, self.job = None, state, job
        self.attempts += 1


class Queue:
    """Jobs in their order, except that a worker prefers clients whose features it may have kept."""

    def __init__(self, jobs: Iterable[Job], before: Mapping[int, object]) -> None:
        self._jobs, self._before = iter(jobs), before
        self._near: list[Job] = []
        self.given: dict[int, object] = {}
        """Which worker had which client."""

    @property
    def left(self) -> bool:
        """Whether there is a job that no worker has."""
        self._near.extend(islice(self._jobs, AHEAD - len(self._near)))
        return bool(self._near)

    def share(self, count: int) -> int:
        """The waiting jobs for each of a number of workers, within the look-ahead."""
        return len(self._near) // count if self.left else 0

    def next_for(self, worker: object) -> Job | None:
        if not self.left:
            return None
        known = (at for at, job in enumerate(self._near) if self._before.get(job.clients[0]) is worker)
        job = self._near.pop(next(known, 0))
        self.given[job.clients[0]] = worker
        return job


class Pool:
    """Worker processes for the jobs of a stage."""

    def __init__(self, setup: Setup, count: int, start: Start) -> None:
        self._context = multiprocessing.get_context(start)
        # A forked process has the setup already; another one is sent it.
        self._setup = setup if start == "fork" else None
        self._message = None if self._setup else pack_setup(setup)
        self._workers: list[_Worker] = []
        self._given: Mapping[int, object] = {}
        try:
            for _ in range(count):
                with signals_held_back():
                    self._workers.append(self._start())
        except BaseException:
            self.close()
            raise

    def carry_out(self, jobs: Iterable[Job], state: Tensors) -> Generator[ClientResult, None, None]:
        """As `CarryOut` says."""
        coming = iter(jobs)
        if (first := next(coming, None)) is None:
            return
        queue = Queue(chain([first], coming), self._given)
        with closing(pack(state)) as sent:
            for worker in self._workers:
                self._give(worker, queue, sent)
            while busy := [worker for worker in self._workers if worker.job]:
                ready = wait([each for worker in busy for each in (worker.connection, worker.process.sentinel)])
                for worker in busy:
                    if worker.connection in ready or worker.process.sentinel in ready:
                        yield from self._take(worker, queue, sent)
        self._given = queue.given

    def close(self) -> None:
        """End all workers."""
        with signals_ignored():
            for worker in self._workers:
                worker.process.terminate()
            for worker in self._workers:
                worker.process.join(1)
                if worker.process.is_alive():
                    worker.process.kill()
                    worker.process.join()
                worker.connection.close()
            for message in (self._message, *(worker.job for worker in self._workers)):
                if message:
                    message.close()
            self._workers.clear()

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        # The common type of contexts does not say that each has a class of processes.
        process = self._context.Process(  # type: ignore[attr-defined]
            target=work, args=(theirs, self._setup), daemon=True, name="partita worker"
        )
        with warnings.catch_warnings(), _main_module_hidden() if self._message else nullcontext():
            # Workers touch nothing that another thread of this process could hold at the moment of the fork.
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
            process.start()
        theirs.close()
        return _Worker(process, ours, self._message)

    def _give(self, worker: _Worker, queue: Queue, state: Message) -> None:
        """The next job, if there is one."""
        if worker.job:
            worker.job.close()
        worker.job, worker.attempts = None, 0
        if job := queue.next_for(worker):
            worker.send(pack(job, known=state), state)

    def _take(self, worker: _Worker, queue: Queue, state: Message) -> list[ClientResult]:
        """The results of a job."""
        try:
            block = receive(worker.connection)
        except (EOFError, OSError):
            self._replace(worker, state)
            return []
        results = results_in(block)
        worker.proven = True
        self._give(worker, queue, state)
        return results

    def _replace(self, worker: _Worker, state: Message) -> None:
        """Replace a worker that died, and give its job to the new one."""
        worker.process.join()
        code = worker.process.exitcode or 0
        if code > 0 and not worker.proven:
            raise PartitaError(
                f"A worker process could not start: it ended with exit code {code}, and its own message is above. Let "
                "one process do the work (--on inline)."
            )
        if worker.attempts >= ATTEMPTS:
            raise PartitaError(
                f"A worker died {ATTEMPTS} times while it worked on the same clients (exit code {code}). "
                "Is there too little memory? Take fewer workers (--workers 1)."
            )
        worker.connection.close()
        with signals_held_back():
            new = self._start()
            worker.process, worker.connection, worker.setup = new.process, new.connection, new.setup
        worker.state, worker.proven = None, False
        assert worker.job
        worker.send(worker.job, state)


@contextmanager
def _main_module_hidden() -> Iterator[None]:
    """Keep a spawned process from importing the main module, because that would run a plain script again.

    The module is not needed: whatever the experiment uses from it is sent with the setup.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
