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
"""Carries out jobs and yields results as they are ready, in no order.

The tensors are the server's state: what a job holds of them need not travel with each job.
"""


class Executor(Protocol):
    """Results have the same bits whichever executor is used, and however many workers it has."""

    def open(self, setup: Setup) -> AbstractContextManager[CarryOut]:
        """Get ready to carry out jobs of a stage; what was started ends with the context."""


def executor_of(given: Executor | str | None) -> Executor:
    """The executor that is meant: a value, its name (`"inline"`, `"processes:4"`), or the default.

    By default, work is done by one process for each core. What follows the name is the first argument of the function
    of that name.
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
