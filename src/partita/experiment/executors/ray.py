"""Workers on a Ray cluster carry out jobs: actors of one thread each, on this machine or on many."""

import os
import platform
import secrets
import sys
import warnings
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...errors import PartitaError
from ...extras import optional
from ...tensors import Tensors
from ...threads import one_thread
from ..executor import CarryOut, Executor
from ..jobs import ClientResult, Job
from ..memory import keep_freed_memory
from ..setup import Setup
from ._cores import cores
from ._pool import ATTEMPTS, Queue
from ._transport import Message, copied, pack
from ._worker import Failure, answer_to, pack_setup, results_in, unpack_setup

PATIENCE = 120.0
"""Seconds in which at least one worker must be ready, where none is at work."""
ENVIRONMENT = {
    **{"RAY_AUTH_MODE": "token", "RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"},
    **{"RAY_task_events_report_interval_ms": "0", "RAY_enable_metrics_collection": "0"},
}
"""Unless the user says otherwise: clients of the cluster need a token, nothing is reported, unused GPUs cause no
warning, and calls are not recorded."""
AHEAD = 2
"""Orders that a worker has at a time: the next is there when one is done."""
TOGETHER = 1 << 20
"""Bytes up to which small jobs make one order: for them a call costs more than what it carries."""
Block = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Ray:
    """Workers of the cluster at an address, by default one for each of its cores.

    Without an address, a cluster of this machine alone is started, and ended afterwards.
    """

    address: str | None = None
    workers: int | None = None

    def __post_init__(self) -> None:
        if self.address is not None and not (isinstance(self.address, str) and self.address):
            raise PartitaError(f"{self.address!r} is not the address of a Ray cluster. Write 'ray:HOST:PORT' or 'ray'.")
        if self.workers is not None and not (isinstance(self.workers, int) and self.workers >= 1):
            raise PartitaError(f"workers is {self.workers}, but must be a whole number of at least 1.")

    @contextmanager
    def open(self, setup: Setup) -> Iterator[CarryOut]:
        if setup.experiment.device != "cpu":
            raise PartitaError(
                f"Workers of Ray compute on the CPU, and the experiment says device = {setup.experiment.device!r}. Set "
                "device = 'cpu', or let this process do the work (--on inline)."
            )
        with one_thread(), self._connected() as library:
            count = self.workers or int(library.cluster_resources().get("CPU", 0))
            if not count:
                raise PartitaError(f"The Ray cluster at {self.address} has no CPU to work on. Add nodes to it.")
            with closing(Workers(library, setup, count)) as workers:
                yield workers.carry_out

    @contextmanager
    def _connected(self) -> Iterator[Any]:
        """The library, connected to the cluster; who was connected before stays so."""
        if "ray" not in sys.modules:
            # It is read at import. Who has imported Ray has decided on it.
            for name, value in ENVIRONMENT.items():
                os.environ.setdefault(name, value)
            if self.address is None:
                os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        library = optional("ray", "partita[ray]")
        if library.is_initialized():
            yield library
            return
        own = {"num_cpus": self.workers or cores(), "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        options = {"address": self.address} if self.address else {"address": "local", **own}
        try:
            library.init(log_to_driver=False, logging_level="ERROR", **options)
        except Exception as problem:
            # Where a node does not start in time, Ray raises a plain Exception.
            what = f"connect to the Ray cluster at {self.address}" if self.address else "start Ray on this machine"
            raise PartitaError(
                f"Cannot {what} ({_first_line(problem)}). Is it running, and does RAY_AUTH_TOKEN hold its token?"
            ) from problem
        try:
            yield library
        finally:
            library.shutdown()


def ray(*, address: str | None = None, workers: int | None = None) -> Executor:
    """Workers on a Ray cluster: that at ADDRESS, or one of this machine alone."""
    return Ray(address, workers)


@dataclass(eq=False)
class Order:
    """Jobs on their way; `lost` is how often a worker was lost over them."""

    jobs: list[Block]
    lost: int = 0


@dataclass(eq=False)
class Worker:
    """An actor that enters, is at work on the first of its orders, or is idle."""

    actor: Any
    calls: deque[Any]
    """What it was asked for and has not answered, in their order: an actor does one thing after another."""
    orders: deque[Order] = field(default_factory=deque)

    @property
    def is_ready(self) -> bool:
        """Whether it has entered, and can take one more order."""
        return len(self.calls) == len(self.orders) < AHEAD


class Workers:
    """Actors for the jobs of a stage. The job of one that is lost, alone or with its node, is done by another."""

    def __init__(self, library: Any, setup: Setup, count: int) -> None:
        self._ray = library
        self._actor = library.remote(Actor).options(num_cpus=1, max_restarts=0, scheduling_strategy="SPREAD")
        # Samples are an object of their own: all workers of a node use one copy of them.
        with closing(pack(setup.data.samples)) as data, closing(pack_setup(setup, known=data)) as rest:
            self._data, self._setup = self._put(data), self._put(rest)
        self._given: Mapping[int, object] = {}
        self._failed = 0
        """How many workers in a row were lost before they were ready."""
        self._states = 0
        self._workers = [self._start() for _ in range(count)]

    def carry_out(self, jobs: Iterable[Job], state: Tensors) -> Generator[ClientResult, None, None]:
        """As `CarryOut` says."""
        coming = iter(jobs)
        if (first := next(coming, None)) is None:
            return
        queue, lost = Queue(chain([first], coming), self._given), deque[Order]()
        self._states += 1
        with closing(pack(state)) as sent:
            held = self._put(sent)
            while True:
                self._give(queue, lost, sent, held)
                if not (lost or queue.left or any(worker.orders for worker in self._workers)):
                    break
                for worker in self._answered():
                    yield from self._take(worker, lost)
        self._given = queue.given

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            self._ray.kill(worker.actor)
        self._workers.clear()

    def _put(self, message: Message) -> Any:
        return self._ray.put(message.memory().numpy())

    def _start(self) -> Worker:
        actor = self._actor.remote()
        return Worker(actor, deque([actor.enter.remote(_versions(), self._data, self._setup)]))

    def _give(self, queue: Queue, lost: deque[Order], sent: Message, held: Any) -> None:
        """An order for each worker that has none, then another; the last ones wait for the first free worker."""
        count = len(self._workers)
        for held_by_all in range(AHEAD):
            for worker in self._workers:
                if not worker.is_ready or len(worker.orders) > held_by_all or (held_by_all and not queue.share(count)):
                    continue
                if order := lost.popleft() if lost else _next(queue, worker, sent, max(1, queue.share(AHEAD * count))):
                    worker.orders.append(order)
                    worker.calls.append(worker.actor.work.remote(order.jobs, self._states, held))

    def _answered(self) -> list[Worker]:
        """Workers that have answered; this waits for one of them."""
        at_work = any(worker.orders for worker in self._workers)
        calls = {worker.calls[0]: worker for worker in self._workers if worker.calls}
        ready, _ = self._ray.wait(list(calls), timeout=None if at_work else PATIENCE)
        if not ready:
            raise PartitaError(
                f"No worker of the Ray cluster was ready within {PATIENCE:.0f} s. Are its CPUs taken by others, or its "
                "nodes lost? See: ray status"
            )
        return [calls[call] for call in ready]

    def _take(self, worker: Worker, lost: deque[Order]) -> list[ClientResult]:
        """What a worker has answered: results, or that it is ready."""
        problems = self._ray.exceptions
        try:
            answers: list[Block] = self._ray.get(worker.calls[0])
        except problems.RayTaskError:
            raise
        except problems.RayError as problem:
            self._replace(worker, lost, problem)
            return []
        worker.calls.popleft()
        if worker.orders:
            worker.orders.popleft()
        self._failed = 0
        return [result for answer in answers for result in results_in(copied(answer.data))]

    def _replace(self, worker: Worker, lost: deque[Order], problem: Exception) -> None:
        """A worker is lost. Another one begins; its orders go to the first that is ready."""
        if worker.orders:
            worker.orders[0].lost += 1
        else:
            self._failed += 1
        over = worker.orders[0].lost if worker.orders else 0
        if over >= ATTEMPTS or self._failed >= ATTEMPTS * len(self._workers):
            what = "over the same clients" if over else "before they were ready"
            raise PartitaError(
                f"Workers of the Ray cluster were lost {ATTEMPTS} times {what} ({_first_line(problem)}). Is there too "
                "little memory? Take fewer workers for each node."
            ) from problem
        lost.extend(worker.orders)
        self._workers[self._workers.index(worker)] = self._start()


class Actor:
    """A worker on some node of the cluster."""

    def __init__(self) -> None:
        self._setup: Setup | None = None
        self._state: Tensor | None = None
        self._states = 0

    def enter(self, versions: Mapping[str, str], data: Block, setup: Block) -> list[Block]:
        """Get ready for jobs."""
        keep_freed_memory()
        torch.set_num_threads(1)
        try:
            if (own := _versions()) != versions:
                raise PartitaError(
                    f"A node of the Ray cluster has {_words(own)}; here is {_words(versions)}. Install the same on all."
                )
            with warnings.catch_warnings():
                # It is not written to: users of samples have copies of their own.
                warnings.filterwarnings("ignore", "The given NumPy array is not writable")
                shared = torch.from_numpy(data)
            self._setup = unpack_setup(copied(setup.data), known=shared)
        except BaseException as problem:
            return [_block(pack(Failure.of(problem)))]
        return []

    def work(self, jobs: list[Block], states: int, state: Block) -> list[Block]:
        """The results of jobs; `states` counts the server's states, so that each is copied once."""
        assert self._setup
        if self._state is None or states != self._states:
            self._states, self._state = states, copied(state.data)
        return [_block(answer_to(copied(job.data), self._state, self._setup)) for job in jobs]


def _next(queue: Queue, worker: Worker, state: Message, most: int) -> Order | None:
    jobs: list[Block] = []
    while len(jobs) < most and sum(job.nbytes for job in jobs) < TOGETHER and (job := queue.next_for(worker)):
        jobs.append(_block(pack(job, known=state)))
    return Order(jobs) if jobs else None


def _block(message: Message) -> Block:
    with closing(message):
        return message.memory().numpy()


def _versions() -> dict[str, str]:
    """What must be the same on all nodes: a worker reads what another process pickled."""
    return {
        "Python": ".".join(platform.python_version_tuple()[:2]),
        **{name: version(name) for name in ("partita", "torch", "numpy")},
    }


def _words(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def _first_line(problem: Exception) -> str:
    return str(problem).strip().partition("\n")[0].rstrip(".") or type(problem).__name__
