"""What does a worker process do? Jobs, one after another, as long as the process that started it lives."""

import multiprocessing
import os
import pickle
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from typing import Any

import cloudpickle
import torch
from torch import Tensor

from ...errors import PartitaError, in_one_line
from ...tensors import Tensors
from ..jobs import ClientResult, Job
from ..memory import keep_freed_memory
from ..setup import Setup
from ._signals import as_worker
from ._transport import Message, pack, receive, unpack


@dataclass(frozen=True)
class Numerics:
    """Torch settings that affect numbers. A spawned process does not inherit them."""

    dtype: torch.dtype
    matmul_precision: str
    deterministic: bool

    @classmethod
    def here(cls) -> "Numerics":
        return cls(
            torch.get_default_dtype(),
            torch.get_float32_matmul_precision(),
            torch.are_deterministic_algorithms_enabled(),
        )

    def set(self) -> None:
        torch.set_default_dtype(self.dtype)
        torch.set_float32_matmul_precision(self.matmul_precision)
        if self.deterministic:
            # Not called otherwise: even turning it off costs a second of imports.
            torch.use_deterministic_algorithms(True)


@dataclass(frozen=True)
class Failure:
    """An exception of a worker."""

    pickled: bytes
    summary: str
    traceback: str

    @classmethod
    def of(cls, problem: BaseException) -> "Failure":
        summary = f"{type(problem).__name__}: {problem}"
        return cls(_pickled(problem), summary, traceback.format_exc())

    def problem(self) -> BaseException:
        """The exception, with the worker's traceback as its cause. If it cannot be pickled, a message replaces it.

        An error of our own says all that is to be known in one line, and has no cause.
        """
        try:
            problem: BaseException = pickle.loads(self.pickled)
        except Exception:
            problem = RuntimeError(self.summary)
        if isinstance(problem, PartitaError):
            return problem
        problem.__cause__ = RuntimeError(f"in a worker:\n{self.traceback}")
        return problem


def pack_setup(setup: Setup, known: Message | None = None) -> Message:
    """Pack the setup for a spawned worker. Tensors that `known` holds are not packed again."""
    try:
        return pack((setup, Numerics.here()), code=True, known=known)
    except PartitaError:
        raise
    except Exception as problem:
        raise PartitaError(
            f"The experiment cannot be sent to worker processes ({in_one_line(problem)}). Leave out what "
            "cannot be pickled, or let this process do the work (--on inline)."
        ) from problem


def work(connection: Connection, setup: Setup | None) -> None:
    """The main loop of a worker. It answers each order with results or an exception.

    An order lists the messages that follow: the job, preceded by the server's state and the setup if the worker does
    not have them yet.
    """
    as_worker()
    parent = multiprocessing.parent_process()
    assert parent
    assert parent.pid
    threading.Thread(target=_leave_with, args=(parent.sentinel,), daemon=True).start()
    keep_freed_memory()
    torch.set_num_threads(1)
    blocks: dict[str, Tensor] = {}
    while True:
        try:
            blocks.update({name: receive(connection) for name in connection.recv()})
        except EOFError:
            return
        try:
            setup = setup or unpack_setup(blocks.pop("setup"))
        except BaseException as problem:
            answer = pack(Failure.of(problem))
        else:
            answer = answer_to(blocks.pop("job"), blocks["state"], setup)
        answer.send(connection, parent.pid)
        answer.close()


def answer_to(job: Tensor, state: Tensor, setup: Setup) -> Message:
    """The results of a job, or what went wrong; `job` and `state`, the server's, are blocks."""
    try:
        todo: Job = unpack(job, known=state)
        return pack(list(todo.run(setup)))
    except BaseException as problem:
        return pack(Failure.of(problem))


def results_in(answer: Tensor) -> list[ClientResult]:
    """The results that a block holds; what went wrong is raised."""
    found: list[ClientResult] | Failure = unpack(answer)
    if isinstance(found, Failure):
        raise found.problem()
    return [replace(result, own=_copied(result.own)) for result in found]


def _copied(own: Tensors | None) -> Tensors | None:
    """What a client keeps outlives the round, and must not hold a whole message in memory."""
    return None if own is None else {name: tensor.clone() for name, tensor in own.items()}


def unpack_setup(block: Tensor, known: Tensor | None = None) -> Setup:
    """What `pack_setup` packed; torch is set as it was there."""
    try:
        setup, numerics = unpack(block, known)
    except Exception as problem:
        raise PartitaError(
            f"A worker process cannot load the experiment ({in_one_line(problem)}). It imports what the "
            "experiment uses: put that in a module that can be imported, or let one process do the work (--on inline)."
        ) from problem
    numerics.set()
    made: Setup = setup
    return made


def _leave_with(sentinel: int) -> None:
    """End this worker when the process that started it has ended, for whatever reason."""
    wait([sentinel])
    os._exit(1)


def _pickled(problem: BaseException) -> bytes:
    """Pack a failure. The definition of its class is included if it exists only in the user's main module."""
    dumps: tuple[Callable[[Any], bytes], ...] = (pickle.dumps, cloudpickle.dumps)
    for dump in dumps:
        with suppress(Exception):
            pickled = dump(problem)
            pickle.loads(pickled)
            return pickled
    return b""
