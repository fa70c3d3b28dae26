"""What happens in a round? Participants download, train and upload; the server aggregates; clients are evaluated."""

import time
from collections.abc import Generator, Iterator, Mapping, MutableMapping
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

from ..core.algorithm import initial_state, server_round
from ..evaluation.scores import Record, summarize, used_variant
from ..tensors import Tensors
from .events import RoundEnded
from .executor import CarryOut, Executor
from .jobs import ClientResult, Evaluate, Job, StayAway, Train, jobs
from .setup import Setup


@dataclass(frozen=True)
class Checkpoint:
    """Where a stage was after some rounds, to go on from there."""

    round: int
    state: Tensors
    """The server's."""


def rounds(
    setup: Setup, executor: Executor, states: MutableMapping[int, Tensors], start: Checkpoint | None = None
) -> Generator[RoundEnded, None, None]:
    """The rounds of a stage from its start or a checkpoint; `states`, what clients keep, is changed in place.

    A round is a function of the state before it, the seed and its number.
    """
    if start and start.round >= setup.stage.rounds:
        return
    setup.check()
    start = start or Checkpoint(0, initial_state(setup.algorithm, setup.server_client(), setup.data.sizes))
    state = start.state
    with executor.open(setup) as carry_out:
        for number in range(start.round, setup.stage.rounds):
            ended = _round(setup, carry_out, states, state, number)
            state = ended.state
            yield ended


def _round(
    setup: Setup, carry_out: CarryOut, states: MutableMapping[int, Tensors], state: Tensors, number: int
) -> RoundEnded:
    began = time.perf_counter()
    moment = setup.moment(number)
    evaluated = setup.experiment.is_evaluated(number + 1, setup.stage)
    chosen = setup.participants(moment)
    others = {*range(len(setup.data))} - {*chosen} - setup.data.newcomers if setup.algorithm.absent else ()
    todo = chain(
        jobs(Train, setup, chosen, states, state, moment, evaluated=evaluated),
        jobs(StayAway, setup, others, states, state, moment),
    )
    results = _done(carry_out, todo, state)
    if updates := [result.update for result in results if result.update]:
        state = server_round(setup.algorithm, state, updates, moment, setup.server_client(), setup.run_phase)
    own = {result.client: result.own for result in results if result.own is not None}
    states.update(own)
    records = [record for result in results for record in result.records]
    if evaluated:
        records += _evaluated(setup, carry_out, states, state, number + 1)
    used = [
        record
        for record in records
        if record.variant == used_variant(setup.algorithm)
        and record.role == "test"
        and record.client not in setup.data.newcomers
    ]
    return RoundEnded(
        stage=setup.stage.name,
        round=number + 1,
        rounds=setup.stage.rounds,
        seconds=time.perf_counter() - began,
        participants=len(chosen),
        metric=setup.data.metric,
        score=summarize(used) if used else None,
        state=state,
        own=own,
        records=records,
        traffic=[row for result in results for row in result.traffic],
    )


def evaluate(
    setup: Setup, executor: Executor, states: Mapping[int, Tensors], state: Tensors, round: int
) -> list[Record]:
    """The records of all models as they are after a round, counted from 1."""
    with executor.open(setup) as carry_out:
        return _evaluated(setup, carry_out, states, state, round)


def _evaluated(
    setup: Setup, carry_out: CarryOut, states: Mapping[int, Tensors], state: Tensors, round: int
) -> list[Record]:
    # The download after this round is that of the next.
    todo = jobs(Evaluate, setup, setup.evaluated, states, state, setup.moment(round))
    return [record for result in _done(carry_out, todo, state) for record in result.records]


def _done(carry_out: CarryOut, todo: Iterator[Job], state: Tensors) -> list[ClientResult]:
    """All results in the order of clients, whatever the order in which they came."""
    with closing(carry_out(todo, state)) as results:
        return sorted(results, key=attrgetter("client"))
