"""What is told while something runs? Events: values that say what just happened."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..evaluation.scores import Record, Summary
from ..tensors import Tensors
from .traffic import Traffic


@dataclass(frozen=True, eq=False)
class RoundEnded:
    """A round of a stage is over; `round` counts from 1."""

    stage: str
    round: int
    rounds: int
    seconds: float
    participants: int
    metric: str
    score: Summary | None
    """On test data over the clients that train, where this round was evaluated."""
    state: Tensors
    """The server's, after the round."""
    own: Mapping[int, Tensors]
    """What clients keep anew: the participants', and others' where the method asks it of them."""
    records: Sequence[Record]
    """Of this round alone, as `traffic` is."""
    traffic: Sequence[Traffic]
    now: str = ""
    """What the stage is at, where it consists of parts."""


@dataclass(frozen=True)
class Waiting:
    """Another process works on a run that is needed here."""

    folder: Path


@dataclass(frozen=True)
class Analysed:
    """An analysis has looked at some of its clients."""

    analysis: str
    done: int
    total: int


Event = RoundEnded | Waiting | Analysed
OnEvent = Callable[[Event], None]


def under(name: str, on_event: OnEvent) -> OnEvent:
    """Tells rounds under a name, for instance that of a baseline."""

    def tell(event: Event) -> None:
        if isinstance(event, RoundEnded):
            event = replace(event, stage=name if event.stage == "run" else f"{name}, {event.stage}")
        on_event(event)

    return tell


def part_of(stage: str, now: str, before: int, total: int, on_event: OnEvent) -> OnEvent:
    """Tells rounds as a part of a longer stage, of which so many rounds were done `before`; `now` says what is done."""

    def tell(event: Event) -> None:
        if isinstance(event, RoundEnded):
            event = replace(event, stage=stage, now=now, round=before + event.round, rounds=total)
        on_event(event)

    return tell


def ignore(event: Event) -> None:
    """Nobody is told."""
