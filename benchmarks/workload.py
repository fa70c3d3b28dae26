"""What is measured, and against what?"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from partita.core.algorithm import Algorithm, RunPhase
from partita.core.batching import Batching
from partita.data.federation import Federation
from partita.simulation.result import Progress, Result
from partita.simulation.simulate import simulate
from partita.simulation.tasks import Factory


@dataclass(frozen=True)
class Measured:
    """One measurement of one contender."""

    seconds: float
    """Of a round, unless the workload says otherwise."""
    megabytes: float | None = None
    """The most memory that was held, where that is asked for."""


Contender = Callable[[], Measured]


@dataclass(frozen=True)
class Goal:
    """A ratio that is wanted: the seconds of `slow` over those of `fast`."""

    slow: str
    fast: str
    at_least: float | None = None
    at_most: float | None = None

    def met(self, ratio: float) -> bool:
        return ratio >= (self.at_least or 0.0) and (self.at_most is None or ratio <= self.at_most)


@dataclass(frozen=True)
class Workload:
    """Something to do, and who does it."""

    about: str
    contenders: Mapping[str, Contender]
    goals: Sequence[Goal] = ()
    peers: Sequence[str] = ()
    """Other projects that can do the same, measured where the command is told where they are."""
    division: Federation | None = None
    """The data that the peers are given."""
    most_seconds: Mapping[str, float] = field(default_factory=dict)
    most_megabytes: Mapping[str, float] = field(default_factory=dict)


class _Enough(Exception):
    """Ends a simulation after the rounds that are timed."""


def timed(run: Callable[[Callable[[Progress], None]], object], rounds: int) -> list[float]:
    """Seconds of the first rounds of something that tells its progress; it is ended after them."""
    times: list[float] = []

    def note(progress: Progress) -> None:
        times.append(progress.seconds)
        if len(times) == rounds:
            raise _Enough

    with suppress(_Enough):
        run(note)
    return times


def round_seconds(
    algorithm: Algorithm,
    model: Factory,
    data: Federation,
    *,
    batching: Batching,
    participation: float = 1.0,
    evaluated: bool = True,
    workers: int | None = None,
    run_phase: RunPhase | None = None,
    rounds: int = 2,
) -> float:
    """Seconds of the last of some rounds; those before it find processes to start and memory to fetch."""

    def run(note: Callable[[Progress], None]) -> Result:
        return simulate(
            algorithm,
            model,
            data,
            # One more than are timed: the last of a simulation is always evaluated.
            rounds=rounds + 1,
            participation=participation,
            batching=batching,
            evaluate_every=1 if evaluated else 0,
            on_round=note,
            run_phase=run_phase,
            workers=workers,
        )

    return timed(run, rounds)[-1]
