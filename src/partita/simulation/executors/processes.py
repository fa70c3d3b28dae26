"""Who does the work? This process alone, or workers of one thread each; the results are the same to the bit."""

import multiprocessing
import os
import pickle
import shutil
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch

from ...errors import PartitaError
from ...tensors import Tensors
from ..jobs import Job, Outcome, Workshop
from .memory import keep_freed_memory
from .transport import Parcel, claim, memory_folder, pack, unpack

Crew = Callable[[Iterable[Job], Tensors], Iterator[Outcome]]
"""Does jobs, given the server's state; outcomes come as they are ready, in no order."""
ATTEMPTS = 3
"""How often a job is begun, where the worker that does it dies."""
AHEAD = 8
"""Among so many jobs a worker is given one for a client that it had before. Not more: they hold clients' states."""


def workers_of_machine() -> int:
    """One for each core that this process may use, or as PARTITA_WORKERS says."""
    told = os.environ.get("PARTITA_WORKERS", "")
    if told:
        if not told.isdigit() or not int(told):
            raise PartitaError(f"PARTITA_WORKERS is {told!r}: it must be a number of at least 1.")
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def crew(workshop: Workshop, workers: int | None = None, method: str | None = None) -> Iterator[Crew]:
    """Workers as long as the context lasts; `method` is how they are started, `fork` or `spawn`."""
    count = workers_of_machine() if workers is None else workers
    if count < 1:
        raise PartitaError(f"{count} workers: at least 1 is needed.")
    keep_freed_memory()
    with _one_thread():
        if count == 1 or multiprocessing.current_process().daemon:
            yield lambda jobs, state: (outcome for job in jobs for outcome in workshop.do(job, state))
            return
        pool = _Pool(workshop, count, method or ("fork" if sys.platform == "linux" else "spawn"))
        try:
            yield pool.do
        finally:
            pool.close()


@contextmanager
def _one_thread() -> Iterator[None]:
    """The number of threads decides the order of sums, and so the last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Who is impatient and presses Ctrl-C again must not keep workers from being sent away."""
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
    job: Parcel
    state: Parcel


@dataclass
class _Failure:
    """What went wrong in a worker, as it is and in words."""

    problem: BaseException
    text: str


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    connection: Connection
    order: _Order | None = None
    attempts: int = 0


class _Waiting:
    """Jobs in their order, except that a worker goes on with clients of which it may remember something."""

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


class _Pool:
    def __init__(self, workshop: Workshop, count: int, method: str) -> None:
        self._workshop, self._context = workshop, multiprocessing.get_context(method)
        self._folder = memory_folder()
        self._claim = claim(self._folder)
        self._forked = method == "fork"
        # A forked process has everything already; another one opens a parcel.
        self._outfit: Parcel | None = None
        self._workers: list[_Worker] = []
        self._given: Mapping[int, _Worker] = {}
        try:
            if not self._forked:
                self._outfit = pack(workshop, self._folder, code=True)
            for _ in range(count):
                self._workers.append(self._hire())
        except BaseException:
            self.close()
            raise

    def do(self, jobs: Iterable[Job], state: Tensors) -> Iterator[Outcome]:
        waiting = _Waiting(jobs, self._given)
        sent = pack(state, self._folder)
        try:
            for worker in self._workers:
                self._give(worker, waiting, sent)
            while busy := [worker for worker in self._workers if worker.order]:
                ready = wait([each for worker in busy for each in (worker.connection, worker.process.sentinel)])
                for worker in busy:
                    if worker.connection in ready or worker.process.sentinel in ready:
                        yield from self._take(worker, waiting, sent)
        finally:
            sent.discard()
        if waiting.given:
            self._given = waiting.given

    def close(self) -> None:
        with _undisturbed():
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

    def _hire(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        outfit = self._workshop if self._outfit is None else self._outfit
        # The common type of contexts does not say that each has a class of processes.
        process = self._context.Process(  # type: ignore[attr-defined]
            target=_work, args=(theirs, outfit, self._folder), daemon=True, name="partita worker"
        )
        with warnings.catch_warnings():
            # Workers touch nothing that another thread of this process could hold at the moment of the fork.
            warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
            process.start()
        theirs.close()
        return _Worker(process, ours)

    def _give(self, worker: _Worker, waiting: _Waiting, state: Parcel) -> None:
        job = waiting.next_for(worker)
        worker.order = None if job is None else _Order(pack(job, self._folder), state)
        worker.attempts = 0
        self._send(worker)

    def _send(self, worker: _Worker) -> None:
        if worker.order:
            worker.attempts += 1
            # One that is dead cannot be sent to; that is seen where it is waited for.
            with suppress(OSError):
                worker.connection.send(worker.order)

    def _take(self, worker: _Worker, waiting: _Waiting, state: Parcel) -> list[Outcome]:
        try:
            answer = worker.connection.recv()
        except (EOFError, OSError):
            self._replace(worker)
            return []
        assert worker.order
        worker.order.job.discard()
        self._give(worker, waiting, state)
        if isinstance(answer, _Failure):
            raise answer.problem from RuntimeError(f"in a worker:\n{answer.text}")
        outcomes: list[Outcome] = unpack(answer)
        answer.discard()
        return [replace(outcome, own=_copied(outcome.own)) for outcome in outcomes]

    def _replace(self, worker: _Worker) -> None:
        """A worker died: another one takes its place and does its job."""
        worker.process.join()
        worker.connection.close()
        if worker.attempts >= ATTEMPTS:
            raise PartitaError(
                f"A worker died {ATTEMPTS} times over the same clients (exit code {worker.process.exitcode}). "
                "Is there too little memory? Take fewer workers (--workers 1)."
            )
        new = self._hire()
        worker.process, worker.connection = new.process, new.connection
        self._send(worker)


def _work(connection: Connection, outfit: Workshop | Parcel, folder: Path) -> None:
    """The life of a worker."""
    # Ctrl-C reaches all processes of a terminal; it is the parent's to stop its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_leave_with_parent, args=(folder,), daemon=True).start()
    torch.set_num_threads(1)
    workshop: Workshop = unpack(outfit) if isinstance(outfit, Parcel) else outfit
    known: tuple[Parcel | None, Any] = (None, None)
    while True:
        try:
            order: _Order = connection.recv()
        except EOFError:
            return
        try:
            if order.state != known[0]:
                known = (order.state, unpack(order.state))
            answer: Parcel | _Failure = pack(workshop.do(unpack(order.job), known[1]), folder)
        except Exception as problem:
            answer = _failure(problem)
        connection.send(answer)


def _leave_with_parent(folder: Path) -> None:
    """No worker outlives the process that hired it, whatever became of that."""
    parent = multiprocessing.parent_process()
    assert parent
    wait([parent.sentinel])
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _copied(own: Tensors | None) -> Tensors | None:
    """What a client keeps outlives the round, and must not hold a whole parcel in memory."""
    return None if own is None else {name: tensor.clone() for name, tensor in own.items()}


def _failure(problem: Exception) -> _Failure:
    text = traceback.format_exc()
    try:
        return _Failure(pickle.loads(pickle.dumps(problem)), text)
    except Exception:
        # Some exceptions cannot travel.
        return _Failure(RuntimeError(f"{type(problem).__name__}: {problem}"), text)
