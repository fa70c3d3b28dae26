"""Workers carry out jobs: processes of one thread each. Results have the same bits for any number of them."""

import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Literal

import torch

from ...errors import PartitaError
from ...tensors import Tensors
from ..executor import CarryOut, Executor
from ..jobs import ClientResult, Job
from ..setup import Setup
from ._memory import keep_freed_memory
from ._transport import Message, claim, memory_folder, pack, unpack
from .inline import Inline, one_thread

ATTEMPTS = 3
"""How often a job is begun, where the worker that does it dies."""
AHEAD = 8
"""Among so many jobs a worker is given one for a client that it had before. Not more: they hold clients' states."""


@dataclass(frozen=True)
class Processes:
    """`workers` processes, by default one for each core; `start` is how they are started."""

    workers: int | None = None
    start: Literal["fork", "spawn"] | None = None

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise PartitaError(f"{self.workers} workers: at least 1 is needed.")

    @contextmanager
    def open(self, setup: Setup) -> Iterator[CarryOut]:
        count = workers_of_machine() if self.workers is None else self.workers
        if count == 1 or setup.experiment.device != "cpu" or multiprocessing.current_process().daemon:
            with Inline().open(setup) as carry_out:
                yield carry_out
            return
        keep_freed_memory()
        with one_thread():
            workers = _Workers(setup, count, self.start or ("fork" if sys.platform == "linux" else "spawn"))
            try:
                yield workers.carry_out
            finally:
                workers.close()


def processes(workers: int | None = None, start: Literal["fork", "spawn"] | None = None) -> Executor:
    """Worker processes on this machine, one for each core unless told otherwise."""
    return Processes(workers, start)


def workers_of_machine() -> int:
    """One for each core that this process may use, or as PARTITA_WORKERS says."""
    told = os.environ.get("PARTITA_WORKERS", "")
    if told:
        if not told.isdigit() or not int(told):
            raise PartitaError(f"PARTITA_WORKERS is {told!r}: it must be a number of at least 1.")
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _signals_ignored() -> Iterator[None]:
    """A second Ctrl-C must not keep workers from being ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {kind: signal.signal(kind, signal.SIG_IGN) for kind in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


@dataclass(frozen=True)
class _Order:
    job: Message
    state: Message


@dataclass
class _Failure:
    """An exception of a worker, and its traceback as text."""

    problem: BaseException
    text: str


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection
    order: _Order | None = None
    attempts: int = 0


class _Queue:
    """Jobs in their order, except that a worker goes on with clients whose features it may have kept."""

    def __init__(self, jobs: Iterable[Job], before: Mapping[int, _Worker]) -> None:
        self._jobs, self._before = iter(jobs), before
        self._near: list[Job] = []
        self.given: dict[int, _Worker] = {}

    def next_for(self, worker: _Worker) -> Job | None:
        self._near.extend(islice(self._jobs, AHEAD - len(self._near)))
        if not self._near:
            return None
        known = (at for at, job in enumerate(self._near) if self._before.get(job.clients[0]) is worker)
        job = self._near.pop(next(known, 0))
        self.given[job.clients[0]] = worker
        return job


class _Workers:
    def __init__(self, setup: Setup, count: int, method: str) -> None:
        self._setup, self._context = setup, multiprocessing.get_context(method)
        self._folder = memory_folder()
        self._claim = claim(self._folder)
        self._forked = method == "fork"
        # A forked process has the setup already; another one reads it from a message.
        self._setup_message: Message | None = None
        self._workers: list[_Worker] = []
        self._given: Mapping[int, _Worker] = {}
        try:
            if not self._forked:
                self._setup_message = pack(setup, self._folder, code=True)
            for _ in range(count):
                self._workers.append(self._start())
        except BaseException:
            self.close()
            raise

    def carry_out(self, jobs: Iterable[Job], state: Tensors) -> Generator[ClientResult, None, None]:
        queue = _Queue(jobs, self._given)
        sent = pack(state, self._folder)
        try:
            for worker in self._workers:
                self._give(worker, queue, sent)
            while busy := [worker for worker in self._workers if worker.order]:
                ready = wait([each for worker in busy for each in (worker.connection, worker.process.sentinel)])
                for worker in busy:
                    if worker.connection in ready or worker.process.sentinel in ready:
                        yield from self._take(worker, queue, sent)
        finally:
            sent.discard()
        if queue.given:
            self._given = queue.given

    def close(self) -> None:
        with _signals_ignored():
            for worker in self._workers:
                worker.process.terminate()
            for worker in self._workers:
                worker.process.join(1)
                if worker.process.is_alive():
                    worker.process.kill()
                    worker.process.join()
                worker.connection.close()
            self._workers.clear()
            shutil.rmtree(self._folder, ignore_errors=True)
            self._claim.close()

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        setup = self._setup if self._setup_message is None else self._setup_message
        # The common type of contexts does not say that each has a class of processes.
        process = self._context.Process(  # type: ignore[attr-defined]
            target=_work, args=(theirs, setup, self._folder), daemon=True, name="partita worker"
        )
        with warnings.catch_warnings():
            # Workers touch nothing that another thread of this process could hold at the moment of the fork.
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
            process.start()
        theirs.close()
        return _Worker(process, ours)

    def _give(self, worker: _Worker, queue: _Queue, state: Message) -> None:
        job = queue.next_for(worker)
        worker.order = None if job is None else _Order(pack(job, self._folder, known=state), state)
        worker.attempts = 0
        self._send(worker)

    def _send(self, worker: _Worker) -> None:
        if worker.order:
            worker.attempts += 1
            # One that is dead cannot be sent to; that is seen where it is waited for.
            with suppress(OSError):
                worker.connection.send(worker.order)

    def _take(self, worker: _Worker, queue: _Queue, state: Message) -> list[ClientResult]:
        try:
            answer = worker.connection.recv()
        except (EOFError, OSError):
            self._replace(worker)
            return []
        assert worker.order
        worker.order.job.discard()
        self._give(worker, queue, state)
        if isinstance(answer, _Failure):
            raise answer.problem from RuntimeError(f"in a worker:\n{answer.text}")
        results: list[ClientResult] = unpack(answer)
        answer.discard()
        return [replace(result, own=_copied(result.own)) for result in results]

    def _replace(self, worker: _Worker) -> None:
        """A worker died: another one takes its place and does its job."""
        worker.process.join()
        worker.connection.close()
        if worker.attempts >= ATTEMPTS:
            raise PartitaError(
                f"A worker died {ATTEMPTS} times over the same clients (exit code {worker.process.exitcode}). "
                "Is there too little memory? Take fewer workers (--workers 1)."
            )
        new = self._start()
        worker.process, worker.connection = new.process, new.connection
        self._send(worker)


def _work(connection: Connection, given: Setup | Message, folder: Path) -> None:
    """The life of a worker."""
    # Ctrl-C reaches all processes of a terminal; the parent ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_leave_with_parent, args=(folder,), daemon=True).start()
    torch.set_num_threads(1)
    setup: Setup = unpack(given) if isinstance(given, Message) else given
    state: tuple[Message, torch.Tensor] | None = None
    while True:
        try:
            order: _Order = connection.recv()
        except EOFError:
            return
        try:
            if state is None or order.state != state[0]:
                state = (order.state, order.state.memory())
            job: Job = unpack(order.job, known=state[1])
            answer: Message | _Failure = pack(list(job.run(setup)), folder)
        except Exception as problem:
            answer = _failure(problem)
        connection.send(answer)


def _leave_with_parent(folder: Path) -> None:
    """No worker outlives the process that started it, whatever became of that."""
    parent = multiprocessing.parent_process()
    assert parent
    wait([parent.sentinel])
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _copied(own: Tensors | None) -> Tensors | None:
    """What a client keeps outlives the round, and must not hold a whole message in memory."""
    return None if own is None else {name: tensor.clone() for name, tensor in own.items()}


def _failure(problem: Exception) -> _Failure:
    text = traceback.format_exc()
    try:
        return _Failure(pickle.loads(pickle.dumps(problem)), text)
    except Exception:
        # Some exceptions cannot travel.
        return _Failure(RuntimeError(f"{type(problem).__name__}: {problem}"), text)
