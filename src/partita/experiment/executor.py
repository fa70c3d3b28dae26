"""Who carries out jobs? An executor: a value that is chosen in Python, in files and with `--on`."""

import inspect
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager
from typing import Protocol

from .. import registry
from ..errors import PartitaError
from ..tensors import Tensors
from .jobs import ClientResult, Job
from .setup import Setup

CarryOut = Callable[[Iterable[Job], Tensors], Generator[ClientResult, None, None]]
"""Carries out jobs and yields results as they become ready, in any order.

The tensors are the server's state. Jobs that refer to them need not send them again.
"""


class Executor(Protocol):
    """Results have the same bits for every executor and any number of workers."""

    def open(self, setup: Setup) -> AbstractContextManager[CarryOut]:
        """Prepare to carry out the jobs of a stage. Processes that are started here end with the context."""


def executor_of(given: Executor | str | None) -> Executor:
    """The executor for a value, a name (`"inline"`, `"processes:4"`) or None, the default.

    The default is one process for each core. The text after the colon is the first argument of the function with that
    name.
    """
    if given is None:
        given = "processes"
    if not isinstance(given, str):
        return given
    name, colon, argument = given.partition(":")
    make = registry.get("executors", name)
    options: dict[str, int | str] = {}
    if colon:
        first = next(iter(inspect.signature(make).parameters), None)
        if first is None:
            raise PartitaError(f"{given!r}: {name} takes no argument. Write {name!r}.")
        options[first] = int(argument) if argument.lstrip("-").isdecimal() else argument
    made: Executor = make(**options)
    return made
