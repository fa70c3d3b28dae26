"""What happens when clients and a server follow an algorithm for some rounds, all on this machine?"""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import nn

from .algorithm import Algorithm, RunPhase, initial_state, server_round
from .batching import Batching
from .checks import check_agreement, check_algorithm, check_clients, check_data, check_evaluation
from .errors import PartitaError
from .evaluation import Record
from .federation import Federation, federate
from .objectives import OBJECTIVES, Loss, Measure
from .pool import Pool
from .processes import crew
from .randomness import Moment, generator
from .result import Progress, Result
from .runners.fast import run_phase as fast
from .task import Buffers, Task
from .tasks import Factory, Tasks
from .tensors import Tensors
from .traffic import Traffic
from .work import Deed, Job, Outcome, Workshop

TOGETHER = 256
"""So many samples make a job."""


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
    oracle_validation: bool = False,
    on_round: Callable[[Progress], None] | None = None,
    start: Checkpoint | None = None,
    own: MutableMapping[int, Tensors] | None = None,
    run_phase: RunPhase = fast,
    workers: int | None = None,
) -> Result:
    """Run an algorithm and evaluate it on all clients every so many rounds and at the end.

    >>> from partita import digits, fedper, mlp, simulate
    >>> result = simulate(fedper(), mlp, digits(), rounds=2)
    >>> 0 < result.accuracy().macro <= 1
    True

    `weights` replaces initial weights by name, for instance with another result's `network_weights()`.
    `oracle_validation` hands the test data out as validation data, to reproduce publications that did so; the result
    says so. `start` continues where another simulation of the same arguments was, with what its clients kept in `own`,
    which is changed in place.
    """
    if rounds < 1:
        raise PartitaError(f"{rounds} rounds: at least 1 is needed.")
    if isinstance(data, Pool):
        data = federate(data, seed=seed)
    objective = OBJECTIVES[data.kind]
    make_task = partial(
        Task,
        loss=loss or objective.loss,
        measure=measured_by or objective.measure,
        groups=groups,
        buffers=buffers,
        frozen_norm=frozen_norm,
    )
    tasks = Tasks(model, data, seed, weights or {}, make_task)
    workshop = Workshop(algorithm, tasks, data, rounds, seed, batching, evaluation_batch, oracle_validation, run_phase)
    check_clients(data.sizes)
    check_data(algorithm, tasks[0], data.sizes, batching)
    check_evaluation(data, tasks[0], evaluation_batch)
    first = workshop.client(0, workshop.moment(0))
    check_algorithm(algorithm, first)
    check_agreement(algorithm, first, (workshop.client(other, first.moment) for other in workshop.different))
    states: MutableMapping[int, Tensors] = {} if own is None else own
    start = start or Checkpoint(0, initial_state(algorithm, workshop.server_client(), data.sizes), (), ())
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
            "oracle_validation": oracle_validation,
        },
        state=start.state,
        own=states,
        records=list(start.records),
        traffic=list(start.traffic),
    )
    trainers = [client for client in range(len(data)) if client not in data.newcomers]
    with crew(workshop, workers) as work:
        for number in range(start.round, rounds):
            began = time.perf_counter()
            moment = workshop.moment(number)
            due = number + 1 == rounds or (evaluate_every > 0 and (number + 1) % evaluate_every == 0)
            chosen = [trainers[at] for at in participants(len(trainers), participation, moment)]
            idle = sorted(set(trainers) - set(chosen)) if algorithm.absent else []
            divide = partial(jobs, data=data, states=states)
            done = sorted(work(divide("train", chosen, moment, measured=due), result.state), key=_client)
            waited = sorted(work(divide("wait", idle, moment), result.state), key=_client)
            updates = [outcome.update for outcome in done if outcome.update]
            own_now = {outcome.client: outcome.own for outcome in (*done, *waited) if outcome.own is not None}
            state = server_round(algorithm, result.state, updates, moment, workshop.server_client(), run_phase)
            states.update(own_now)
            records = [record for outcome in done for record in outcome.records]
            traffic = [row for outcome in done for row in outcome.traffic]
            if due:
                # The download after this round is that of the next.
                after = replace(moment, round=number + 1)
                measured = work(divide("measure", range(len(data)), after), state)
                records += [record for outcome in sorted(measured, key=_client) for record in outcome.records]
            result = replace(result, state=state, traffic=result.traffic + traffic, records=result.records + records)
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
                        own_now,
                        records,
                        traffic,
                    )
                )
    return result


def jobs(
    deed: Deed,
    clients: Iterable[int],
    moment: Moment,
    *,
    data: Federation,
    states: Mapping[int, Tensors],
    measured: bool = False,
) -> Iterator[Job]:
    """Work for clients, the largest first; small clients together, so that they cost no message each."""
    for some in _together(sorted(clients, key=lambda client: (-data.size(client), client)), data):
        yield Job(deed, some, [states.get(each, {}) for each in some], moment, measured)


def _together(clients: Sequence[int], data: Federation) -> Iterator[list[int]]:
    some: list[int] = []
    for client in clients:
        some.append(client)
        if sum(map(data.size, some)) >= TOGETHER:
            yield some
            some = []
    if some:
        yield some


def _client(outcome: Outcome) -> int:
    return outcome.client
