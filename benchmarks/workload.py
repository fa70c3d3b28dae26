"""What is measured, and against what?"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import islice

from typing_extensions import Unpack

from benchmarks.processor import processor_seconds
from partita.core.algorithm import Algorithm, RunPhase
from partita.data.federation import Federation
from partita.experiment.executor import Executor, executor_of
from partita.experiment.experiment import Experiment, Options
from partita.experiment.rounds import rounds
from partita.experiment.setup import Setup
from partita.experiment.tasks import Factory


@dataclass(frozen=True)
class Measured:
    """One measurement of one contender."""

    seconds: float
    """Of a round, unless the workload says otherwise."""
    megabytes: float | None = None
    """The most memory that was held, where that is asked for."""
    processor: float | None = None
    """Seconds of all processors together, without waiting for others' work; with one thread for each process."""


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
    operations: Callable[[], float] | None = None
    """Floating-point operations of a round of the floor, where they are counted."""
    division: Federation | None = None
    """The data that the peers are given."""
    most_seconds: Mapping[str, float] = field(default_factory=dict)
    most_megabytes: Mapping[str, float] = field(default_factory=dict)


def timed(setup: Setup, count: int, on: Executor | str | None = None) -> list[Measured]:
    """The first rounds of a stage, which need not be all."""
    found: list[Measured] = []
    before: float | None = None
    with closing(rounds(setup, executor_of(on), {})) as ended:
        for each in islice(ended, count):
            now = processor_seconds()
            worked = None if now is None or before is None else now - before
            found.append(Measured(each.seconds, processor=worked))
            before = now
    return found


def measured_round(
    algorithm: Algorithm,
    model: Factory,
    data: Federation,
    *,
    evaluated: bool = True,
    on: Executor | str | None = None,
    run_phase: RunPhase | None = None,
    count: int = 2,
    **options: Unpack[Options],
) -> Measured:
    """The last of `count` rounds; those before it find processes to start and memory to fetch.

    `run_phase` replaces the engine.
    """
    # One more than are timed: the last of a simulation is always evaluated.
    options["rounds"] = count + 1
    options["evaluate_every"] = 1 if evaluated else 0
    experiment = Experiment(algorithm, model, data, **options)  # type: ignore[arg-type]
    setup = Setup.of(experiment, experiment.stages[-1], experiment.weights)
    if run_phase:
        setup = replace(setup, run_phase=run_phase)
    return timed(setup, count, on)[-1]
