"""What happens in a round? Participants download, train and upload; the server aggregates; clients are evaluated."""

import time
from collections.abc import Generator, Iterator, Mapping, MutableMapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter

from ..core.algorithm import initial_state, server_round
from ..errors import PartitaError
from ..evaluation.outcomes import Outcomes
from ..evaluation.scores import Record, summarize, used_variant
from ..formatting import amount
from ..tensors import Tensors
from .events import RoundEnded
from .executor import CarryOut, Executor
from .jobs import ClientResult, Evaluate, Job, StayAway, Train, jobs
from .left_out import NAMED_AFTER, LeftOut, in_a_row, last_by_client
from .setup import Setup


@dataclass(frozen=True)
class Checkpoint:
    """Where a stage was after some rounds, to go on from there."""

    round: int
    state: Tensors
    """The server's."""
    left_out: Sequence[LeftOut] = ()
    """The clients that were left out in the rounds so far."""


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
    state, left_out = start.state, list(start.left_out)
    with executor.open(setup) as carry_out:
        for number in range(start.round, setup.stage.rounds):
            ended = _round(setup, carry_out, states, state, number, left_out)
            state = ended.state
            left_out += ended.left_out
            yield ended


def _round(
    setup: Setup,
    carry_out: CarryOut,
    states: MutableMapping[int, Tensors],
    state: Tensors,
    number: int,
    left_out_before: Sequence[LeftOut],
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
    updates = [result.update for result in results if result.update]
    if updates:
        state = server_round(setup.algorithm, state, updates, moment, setup.server_client(), setup.run_phase)
    own = {result.client: result.own for result in results if result.own is not None}
    states.update(own)
    left_out = _left_out(setup, number, results, left_out_before)
    if chosen and not updates:
        _need_somebody(setup, number, [*left_out_before, *left_out])
    records = [record for result in results for record in result.records]
    outcomes: list[Outcomes] = []
    if evaluated:
        measured = _evaluated(setup, carry_out, states, state, number + 1)
        records += [record for result in measured for record in result.records]
        outcomes = [each for result in measured for each in result.outcomes]
        known = {each.client for each in left_out}
        measured = [result for result in measured if result.client not in known]
        left_out += _left_out(setup, number, measured, left_out_before)
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
        participants=len(updates),
        metric=setup.data.metric,
        score=summarize(used) if used else None,
        state=state,
        own=own,
        records=records,
        traffic=[row for result in results for row in result.traffic],
        left_out=left_out,
        outcomes=outcomes,
    )


def _left_out(setup: Setup, number: int, results: Sequence[ClientResult], before: Sequence[LeftOut]) -> list[LeftOut]:
    last = last_by_client(before)
    return [
        LeftOut(
            round=number + 1,
            client=result.client,
            name=setup.data.name_of(result.client),
            in_a_row=in_a_row(
                result.client, number + 1, last.get(result.client), lambda at: setup.participants(setup.moment(at - 1))
            ),
            problem=result.problem,
        )
        for result in results
        if result.problem
    ]


def _need_somebody(setup: Setup, number: int, left_out: Sequence[LeftOut]) -> None:
    """End the run if every participant of the last rounds was left out: the cause is then not in single clients."""
    if not left_out:
        return
    recent = range(max(number + 2 - NAMED_AFTER, 1), number + 2)
    gone = {(each.round, each.client) for each in left_out}
    nobody = all((at, client) in gone for at in recent for client in setup.participants(setup.moment(at - 1)))
    if nobody and (len(recent) == NAMED_AFTER or number + 1 == setup.stage.rounds):
        raise PartitaError(
            f"All clients that took part in {'the last ' if len(recent) > 1 else ''}{amount(len(recent), 'round')} "
            f"were left out, so nothing is learned. {left_out[-1].problem}"
        )


def evaluate(
    setup: Setup, executor: Executor, states: Mapping[int, Tensors], state: Tensors, round: int
) -> tuple[list[Record], list[Outcomes]]:
    """The records of all models as they are after a round, counted from 1, and after the last the outcomes."""
    with executor.open(setup) as carry_out:
        measured = _evaluated(setup, carry_out, states, state, round)
    records = [record for result in measured for record in result.records]
    return records, [each for result in measured for each in result.outcomes]


def _evaluated(
    setup: Setup, carry_out: CarryOut, states: Mapping[int, Tensors], state: Tensors, round: int
) -> list[ClientResult]:
    # The download after this round is that of the next. Comparisons are of the last.
    last = setup.stage.name == "run" and round == setup.stage.rounds
    todo = jobs(Evaluate, setup, setup.evaluated, states, state, setup.moment(round), each=last)
    return _done(carry_out, todo, state)


def _done(carry_out: CarryOut, todo: Iterator[Job], state: Tensors) -> list[ClientResult]:
    """All results in the order of clients, whatever the order in which they came."""
    with closing(carry_out(todo, state)) as results:
        return sorted(results, key=attrgetter("client"))
