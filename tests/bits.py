"""Is everything the same to the bit? One hash of all that a simulation leaves, in the order in which it is kept."""

import hashlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass
from operator import attrgetter

from torch import Tensor

from partita.experiment.executor import CarryOut, Executor
from partita.experiment.jobs import ClientResult, Job
from partita.experiment.result import Result
from partita.experiment.setup import Setup
from partita.tensors import Tensors


def digest(*things: object) -> str:
    """Of every bit, with the names of tensors and the order in which dictionaries hold them."""
    found = hashlib.sha256()
    for part in _parts(things):
        found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()


def bits(result: Result) -> str:
    """Of the server's state, what clients keep, metrics and traffic."""
    return digest(result.state, dict(sorted(result.own.items())), result.records, result.traffic)


@dataclass
class Noting:
    """An executor that notes what another one makes of every job, with updates, by round and client."""

    executor: Executor
    noted: list[list[ClientResult]] = field(default_factory=list)
    states: list[Tensors] = field(default_factory=list)
    """Of the server, before these jobs."""

    @contextmanager
    def open(self, setup: Setup) -> Iterator[CarryOut]:
        with self.executor.open(setup) as inner:

            def carry_out(jobs: Iterable[Job], state: Tensors) -> Generator[ClientResult, None, None]:
                self.states.append(state)
                results = list(inner(jobs, state))
                self.noted.append(sorted(results, key=attrgetter("client")))
                yield from results

            yield carry_out


def _parts(thing: object) -> Iterator[bytes]:
    yield type(thing).__name__.encode()
    if isinstance(thing, Tensor):
        yield f"{thing.dtype} {tuple(thing.shape)}".encode()
        yield thing.contiguous().numpy().tobytes()
    elif isinstance(thing, Mapping):
        for key, value in thing.items():
            yield repr(key).encode()
            yield from _parts(value)
    elif is_dataclass(thing):
        for each in fields(thing):
            yield each.name.encode()
            yield from _parts(getattr(thing, each.name))
    elif isinstance(thing, Sequence) and not isinstance(thing, str | bytes):
        for value in thing:
            yield from _parts(value)
    else:
        yield repr(thing).encode()
