"""How long do two processes take that do nothing but the arithmetic? The floor under every simulator."""

import multiprocessing
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection

import torch

from benchmarks.workload import Measured

Round = Callable[[], None]


def in_processes(prepare: Callable[[Sequence[int]], Round], sizes: Sequence[int], processes: int = 2) -> Measured:
    """How long until all processes have done their clients, measured when each has prepared what it needs."""
    context = multiprocessing.get_context("fork")
    pipes, started = [], []
    for clients in _shares(sizes, processes):
        here, there = context.Pipe()
        process = context.Process(target=_work, args=(there, prepare, clients), daemon=True)
        process.start()
        pipes.append(here)
        started.append(process)
    for pipe in pipes:
        pipe.recv()
    began = time.perf_counter()
    for pipe in pipes:
        pipe.send(None)
    worked = sum(pipe.recv() for pipe in pipes)
    seconds = time.perf_counter() - began
    for process in started:
        process.join()
    return Measured(seconds, processor=worked)


def _work(pipe: Connection, prepare: Callable[[Sequence[int]], Round], clients: Sequence[int]) -> None:
    torch.set_num_threads(1)
    work = prepare(clients)
    # Memory is fetched in a round that is not timed, as with every other contender.
    work()
    pipe.send(None)
    pipe.recv()
    began = time.process_time()
    work()
    pipe.send(time.process_time() - began)


def _shares(sizes: Sequence[int], processes: int) -> list[list[int]]:
    """Clients for each process, the largest first, each to whoever has least."""
    shares: list[list[int]] = [[] for _ in range(processes)]
    for client in sorted(range(len(sizes)), key=lambda client: -sizes[client]):
        min(shares, key=lambda share: sum(sizes[each] for each in share)).append(client)
    return shares
