"""Who takes part in a round? A sampler decides: a fraction, a number, all clients, Poisson, or a given schedule."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Protocol

import torch

from ..core.signatures.kinds import shown
from ..errors import PartitaError, unknown
from ..randomness import Moment, generator


class Sampler(Protocol):
    """Chooses participants; any function will do. The seed and the round alone decide, so that all methods share it."""

    def __call__(self, clients: int, moment: Moment, /) -> list[int]:
        """Numbers from 0 to `clients` - 1 in ascending order, each at most once; the list may be empty."""


class NamedSampler(Sampler, Protocol):
    """One of this file, which can be written as text."""

    @property
    def who(self) -> str:
        """The sampler in words, to be followed by `take part`."""


@dataclass(frozen=True)
class Fraction:
    """A fixed fraction of the clients, rounded down, at least one."""

    fraction: float

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise PartitaError(
                f"participation is {self.fraction}, but must be above 0 and at most 1. For a number of clients write "
                "'number:COUNT'."
            )

    def __call__(self, clients: int, moment: Moment) -> list[int]:
        return _drawn(clients, max(math.floor(self.fraction * clients + 1e-9), 1), moment)

    @property
    def who(self) -> str:
        return f"{100 * self.fraction:g} % of clients"

    def __str__(self) -> str:
        return str(self.fraction)


@dataclass(frozen=True)
class Number:
    """A fixed number of clients, or all of them if there are fewer."""

    count: int

    def __post_init__(self) -> None:
        if self.count < 1:
            raise PartitaError(f"participation is 'number:{self.count}', but must be of at least 1 client.")

    def __call__(self, clients: int, moment: Moment) -> list[int]:
        return _drawn(clients, min(self.count, clients), moment)

    @property
    def who(self) -> str:
        return f"{self.count} clients"

    def __str__(self) -> str:
        return f"number:{self.count}"


@dataclass(frozen=True)
class Everyone:
    """All clients in every round."""

    def __call__(self, clients: int, moment: Moment) -> list[int]:
        return list(range(clients))

    @property
    def who(self) -> str:
        return "all clients"

    def __str__(self) -> str:
        return "all"


@dataclass(frozen=True)
class Poisson:
    """Each client independently with the same probability, as differential privacy assumes; a round may be empty."""

    rate: float

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise PartitaError(f"participation is 'poisson:{self.rate}', but its rate must be above 0 and at most 1.")

    def __call__(self, clients: int, moment: Moment) -> list[int]:
        draws = torch.rand(clients, generator=generator(moment.seed, "poisson", moment.round), dtype=torch.float64)
        return torch.nonzero(draws < self.rate).flatten().tolist()

    @property
    def who(self) -> str:
        return f"clients with a probability of {self.rate:g}"

    def __str__(self) -> str:
        return f"poisson:{self.rate}"


@dataclass(frozen=True)
class Schedule:
    """A given list of participants for each round. After its end it starts again."""

    rounds: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if not self.rounds:
            raise PartitaError("The schedule of participants is empty. Give a list of clients for at least one round.")
        for number, chosen in enumerate(self.rounds, 1):
            if len(set(chosen)) != len(chosen) or any(client < 0 for client in chosen):
                raise PartitaError(
                    f"The participants of round {number} are {list(chosen)}. Name each client once, by its number "
                    "from 0."
                )

    def __call__(self, clients: int, moment: Moment) -> list[int]:
        chosen = sorted(self.rounds[moment.round % len(self.rounds)])
        if chosen and chosen[-1] >= clients:
            raise PartitaError(
                f"Client {chosen[-1]} is to take part in round {moment.round + 1}, but only {clients} clients train. "
                f"Choose from 0 to {clients - 1}."
            )
        return chosen

    @property
    def who(self) -> str:
        return "clients of a given schedule"

    def __str__(self) -> str:
        return "schedule:" + ";".join(",".join(map(str, chosen)) for chosen in self.rounds)


def sampler(given: float | str | Sequence[Sequence[int]] | Sampler) -> Sampler:
    """The sampler that a setting means: `0.1`, `"number:10"`, `"poisson:0.1"`, `"all"`, or a list of clients by round.

    >>> sampler("poisson:0.1")
    Poisson(rate=0.1)
    """
    if isinstance(given, str):
        return named_sampler(given)
    if isinstance(given, int | float):
        return _fraction(given)
    return _schedule(given) if isinstance(given, Sequence) else given


def _schedule(rounds: Sequence[Any]) -> Sampler:
    try:
        return Schedule(tuple(tuple(map(index, chosen)) for chosen in rounds))
    except TypeError:
        raise PartitaError(
            f"participation is {shown(rounds)}, but a schedule is a list of clients for each round, as in [[0, 1], "
            "[2]]."
        ) from None


def named_sampler(text: str) -> NamedSampler:
    """The sampler that a text means."""
    kind, _, argument = text.partition(":")
    try:
        if text == "all":
            return Everyone()
        if kind == "number":
            return Number(int(argument))
        if kind == "poisson":
            return Poisson(float(argument))
        if kind == "schedule":
            return Schedule(tuple(tuple(map(int, filter(None, part.split(",")))) for part in argument.split(";")))
        return _fraction(float(text))
    except ValueError:
        known = ("a fraction such as 0.1", "all", "number:COUNT", "poisson:RATE", "schedule:0,1;2,3")
        raise PartitaError(unknown("participation", text, known)) from None


def _fraction(given: float) -> NamedSampler:
    return Everyone() if given == 1 else Fraction(given)


def _drawn(clients: int, count: int, moment: Moment) -> list[int]:
    order = torch.randperm(clients, generator=generator(moment.seed, "participants", moment.round))
    return sorted(order[:count].tolist())
