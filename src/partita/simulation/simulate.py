"""What happens when clients and a server follow an algorithm for some rounds, all on this machine?"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import nn

from ..core.algorithm import Algorithm, RunPhase, initial_state, server_round
from ..core.batching import Batching
from ..core.objectives import Loss, Measure
from ..core.task import Buffers
from ..data.federation import Federation, federate
from ..data.pool import Pool
from ..engine.fast import FastEngine
from ..errors import PartitaError
from ..evaluation.scores import Record
from ..randomness import Moment, generator
from ..tensors import Tensors
from .checks import check_agreement, check_algorithm, check_clients, check_data, check_evaluation
from .executors.processes import Crew, crew
from .jobs import Deed, Job, Outcome, Workshop
from .result import Progress, Result
from .tasks import Factory, tasks_for
from .traffic import Traffic

TOGETHER = 512
"""So many samples of small clients make a job."""
WEIGHTS_PER_SAMPLE = 10_000
"""To copy so many weights takes about as long as to learn from a sample."""


@dataclass(frozen=True)
class Checkpoint:
    """Where a simulation was after some rounds, to go on from there."""

    round: int
    state: Tensors
    records: Sequence[Record]
    traffic: Sequence[Traffic]


def participants(count: int, fraction: float, moment: Moment) -> list[int]:
    """Who takes part in a round: floor(fraction * count) clients, at least one; the same for every method."""
    if not 0 < fraction <= 1:
        raise PartitaError(f"A participation of {fraction}: it must be above 0 and at most 1.")
    chosen = max(math.floor(fraction * count + 1e-9), 1)
    order = torch.randperm(count, generator=generator(moment.seed, "participants", moment.round))
    return sorted(order[:chosen].tolist())


def simulate(
    algorithm: Algorithm,
    model: nn.Module | Factory,
    data: Federation | Pool,
    *,
    rounds: int = 20,
    seed: int = 0,
    participation: float = 1.0,
    batching: Batching = Batching(),
    loss: Loss | None = None,
    measured_by: Measure | None = None,
    groups: dict[str, str | tuple[str, ...]] | None = None,
    buffers: Buffers = "follow",
    frozen_norm: Literal["train", "eval"] = "train",
    weights: Tensors | None = None,
    evaluate_every: int = 10,
    evaluation_batch: int = 512,
    evaluation_clients: int = 10_000,
    oracle_validation: bool = False,
    on_round: Callable[[Progress], None] | None = None,
    start: Checkpoint | None = None,
    own: MutableMapping[int, Tensors] | None = None,
    run_phase: RunPhase | None = None,
    workers: int | None = None,
    device: str = "cpu",
) -> Result:
    """Run an algorithm and evaluate it on all clients every so many rounds and at the end.

    >>> from partita import digits, fedper, mlp, simulate
    >>> result = simulate(fedper(), mlp, digits(), rounds=2)
    >>> 0 < result.accuracy().macro <= 1
    True

    `weights` replaces initial weights by name, for instance with another result's `network_weights()`.
    `oracle_validation` hands the test data out as validation data, to reproduce publications that did so; the result
    says so. `start` continues where another simulation of the same arguments was, with what its clients kept in `own`,
    which is changed in place. Work is done by `workers` processes, as many as there are cores unless told otherwise;
    their number does not change a bit of the result. Of more than `evaluation_clients` a fixed sample is evaluated.
    """
    if rounds < 1:
        raise PartitaError(f"{rounds} rounds: at least 1 is needed.")
    if isinstance(data, Pool):
        data = federate(data, seed=seed)
    tasks = tasks_for(
        model,
        data,
        seed,
        weights=weights or {},
        loss=loss,
        measure=measured_by,
        groups=groups,
        buffers=buffers,
        frozen_norm=frozen_norm,
        device=device,
    )
    run = run_phase or FastEngine()
    workshop = Workshop(algorithm, tasks, data, rounds, seed, batching, evaluation_batch, oracle_validation, run)
    _check(workshop)
    states: MutableMapping[int, Tensors] = {} if own is None else own
    start = start or Checkpoint(0, initial_state(algorithm, workshop.server_client(), data.sizes), (), ())
    evaluated = fixed_sample(len(data), evaluation_clients)
    result = Result(
        algorithm,
        tasks[0],
        data,
        rounds,
        seed,
        protocol={
            "participation": participation,
            "batching": asdict(batching),
            "buffers": buffers,
            "frozen_norm": frozen_norm,
            "evaluation_batch": evaluation_batch,
            "evaluated_clients": len(evaluated),
            "oracle_validation": oracle_validation,
        },
        state=start.state,
        own=states,
        records=list(start.records),
        traffic=list(start.traffic),
    )
    with crew(workshop, workers if device == "cpu" else 1) as work:
        for number in range(start.round, rounds):
            began = time.perf_counter()
            moment = workshop.moment(number)
            due = number + 1 == rounds or (evaluate_every > 0 and (number + 1) % evaluate_every == 0)
            chosen = _chosen(data, participation, moment)
            done = _round(workshop, work, result, chosen, moment, measured=due)
            states.update(done.own)
            records = [*done.records]
            if due:
                # The download after this round is that of the next.
                after = replace(moment, round=number + 1)
                measured = work(jobs("measure", evaluated, after, data, states, weights=workshop.weights), done.state)
                records += [record for outcome in sorted(measured, key=_client) for record in outcome.records]
            result.records.extend(records)
            result.traffic.extend(done.traffic)
            result = replace(result, state=done.state)
            if on_round:
                accuracy = result.accuracy(round=number + 1) if due else None
                seconds = time.perf_counter() - began
                on_round(
                    Progress(
                        number + 1,
                        rounds,
                        seconds,
                        result.metric,
                        accuracy,
                        result,
                        len(chosen),
                        done.own,
                        records,
                        done.traffic,
                    )
                )
    return result


def fixed_sample(clients: int, most: int) -> Sequence[int]:
    """All clients, or of a larger population a sample that is the same for every round and method."""
    if most < 1:
        raise PartitaError(f"An evaluation of {most} clients: at least 1 is needed.")
    if clients <= most:
        return range(clients)
    order = torch.randperm(clients, generator=generator(0, "evaluated clients"))
    return sorted(order[:most].tolist())


@dataclass(frozen=True)
class _Round:
    """What a round makes of the state."""

    state: Tensors
    own: dict[int, Tensors]
    records: Sequence[Record]
    traffic: Sequence[Traffic]


def _round(
    workshop: Workshop, work: Crew, result: Result, chosen: Sequence[int], moment: Moment, *, measured: bool
) -> _Round:
    algorithm, data = workshop.algorithm, workshop.data
    divide = partial(jobs, moment=moment, data=data, states=result.own, weights=workshop.weights)
    done = sorted(work(divide("train", chosen, measured=measured), result.state), key=_client)
    others = {*range(len(data))} - {*chosen} - data.newcomers if algorithm.absent else ()
    waited = sorted(work(divide("wait", others), result.state), key=_client)
    updates = [outcome.update for outcome in done if outcome.update]
    holder = workshop.server_client()
    return _Round(
        state=server_round(algorithm, result.state, updates, moment, holder, workshop.run_phase),
        own={outcome.client: outcome.own for outcome in (*done, *waited) if outcome.own is not None},
        records=[record for outcome in done for record in outcome.records],
        traffic=[row for outcome in done for row in outcome.traffic],
    )


def _chosen(data: Federation, participation: float, moment: Moment) -> list[int]:
    """Who takes part, of those who train."""
    places = participants(len(data) - len(data.newcomers), participation, moment)
    if not data.newcomers:
        return places
    trainers = [client for client in range(len(data)) if client not in data.newcomers]
    return [trainers[at] for at in places]


def _check(workshop: Workshop) -> None:
    algorithm, data = workshop.algorithm, workshop.data
    check_clients(data.sizes)
    task = workshop.tasks[0]
    check_data(algorithm, task, data.sizes, workshop.batching)
    check_evaluation(data, task, workshop.evaluation_batch)
    first = workshop.client(0, workshop.moment(0))
    check_algorithm(algorithm, first)
    check_agreement(algorithm, first, (workshop.client(other, first.moment) for other in workshop.different))


def jobs(
    deed: Deed,
    clients: Iterable[int],
    moment: Moment,
    data: Federation,
    states: Mapping[int, Tensors],
    *,
    weights: int = 0,
    measured: bool = False,
) -> Iterator[Job]:
    """Work for clients, the largest first; small clients together, so that they cost no message each.

    A client costs its samples, and what it takes to copy its `weights`.
    """
    ordered = sorted(clients, key=lambda client: (-data.size(client), client))
    for some in _together(ordered, data, weights / WEIGHTS_PER_SAMPLE):
        yield Job(deed, some, [states.get(each, {}) for each in some], moment, measured)


def _together(clients: Sequence[int], data: Federation, fixed: float) -> Iterator[list[int]]:
    some: list[int] = []
    cost = 0.0
    for client in clients:
        own = data.size(client) + fixed
        if some and cost + own > TOGETHER:
            yield some
            some, cost = [], 0.0
        some.append(client)
        cost += own
    if some:
        yield some


def _client(outcome: Outcome) -> int:
    return outcome.client
