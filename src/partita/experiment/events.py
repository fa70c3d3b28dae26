"""How is progress reported? By events: values that describe what has just happened."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..evaluation.outcomes import Outcomes
from ..evaluation.scores import Record, Summary
from ..tensors import Tensors
from .left_out import LeftOut
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
    """The test score over the clients that train, if this round was evaluated."""
    state: Tensors
    """The server's state after the round."""
    own: Mapping[int, Tensors]
    """The new states of clients: of participants, and of absent clients if the method trains them."""
    records: Sequence[Record]
    """The records of this round only, like `traffic`."""
    traffic: Sequence[Traffic]
    left_out: Sequence[LeftOut] = ()
    outcomes: Sequence[Outcomes] = ()
    """The outcomes of test samples, after the last round."""
    now: str = ""
    """The part that is being done, where a stage consists of parts."""


@dataclass(frozen=True)
class Planned:
    """A run is ready to start or to continue."""

    label: str
    data: str
    clients: int
    rounds: int
    """The number of rounds that lie ahead."""
    baseline_rounds: int
    """The number of rounds of baselines that do not exist yet."""
    notes: Sequence[str]
    """What is to be known of data and set-up."""


@dataclass(frozen=True)
class Waiting:
    """Another process is working on a run that is needed here."""

    folder: Path


@dataclass(frozen=True)
class Analysed:
    """An analysis has finished some of its clients."""

    analysis: str
    done: int
    total: int


Event = Planned | RoundEnded | Waiting | Analysed
OnEvent = Callable[[Event], None]


def under(name: str, on_event: OnEvent) -> OnEvent:
    """Pass events on under a name, for instance that of a baseline."""

    def tell(event: Event) -> None:
        if isinstance(event, RoundEnded):
            event = replace(event, stage=name if event.stage == "run" else f"{name}, {event.stage}")
        on_event(event)

    return tell


def part_of(stage: str, now: str, before: int, total: int, on_event: OnEvent) -> OnEvent:
    """Reports rounds as part of a longer stage, of which `before` rounds were done already; `now` names the part."""

    def tell(event: Event) -> None:
        if isinstance(event, RoundEnded):
            event = replace(event, stage=stage, now=now, round=before + event.round, rounds=total)
        on_event(event)

    return tell


def ignore(event: Event) -> None:
    """Do nothing with an event."""
