"""What happens when clients and a server follow an algorithm for some rounds, all on this machine?"""

import math
import time
from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Literal

import torch
from torch import nn

from .algorithm import (
    Algorithm,
    RunPhase,
    Trained,
    absent_round,
    begin,
    client_round,
    enter,
    initial_state,
    kept_names,
    personalize,
    server_round,
)
from .batching import Batching
from .checks import check_agreement, check_algorithm, check_clients, check_data, check_evaluation
from .client import Client
from .errors import PartitaError
from .evaluation import Model, Record, measure
from .federation import Federation, federate
from .objectives import OBJECTIVES, Loss, Measure
from .pool import Pool
from .randomness import Moment, generator
from .result import Progress, Result
from .runners.reference import run_phase as reference
from .samples import Samples
from .task import Buffers, Task
from .tasks import Factory, Tasks, facts_for
from .tensors import Tensors
from .traffic import Traffic, traffic


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
    run_phase: RunPhase = reference,
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
    simulation = _Simulation(
        algorithm, tasks, data, rounds, seed, batching, evaluation_batch, oracle_validation, run_phase
    )
    check_clients(data.sizes)
    check_data(algorithm, tasks[0], data.sizes, batching)
    check_evaluation(data, tasks[0], evaluation_batch)
    check_algorithm(algorithm, simulation.client(0, simulation.moment(0)))
    first = simulation.moment(0)
    others = (simulation.client(number, first) for number in simulation.different)
    check_agreement(algorithm, simulation.client(0, first), others)
    states: MutableMapping[int, Tensors] = {} if own is None else own
    start = start or Checkpoint(0, initial_state(algorithm, simulation.server_client(), data.sizes), (), ())
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
    for number in range(start.round, rounds):
        began = time.perf_counter()
        moment = simulation.moment(number)
        due = number + 1 == rounds or (evaluate_every > 0 and (number + 1) % evaluate_every == 0)
        chosen = [trainers[at] for at in participants(len(trainers), participation, moment)]
        idle = sorted(set(trainers) - set(chosen)) if algorithm.absent else []
        done = simulation.round(result, chosen, idle, moment)
        states.update(done.own)
        result = replace(result, state=done.state, traffic=result.traffic + done.traffic)
        records = simulation.evaluate(result, done, moment) if due else []
        result = replace(result, records=result.records + records)
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


@dataclass(frozen=True)
class _Round:
    """What a round makes of the state."""

    clients: Sequence[Client]
    trained: Sequence[Trained]
    state: Tensors
    own: dict[int, Tensors]
    traffic: list[Traffic]


@dataclass(frozen=True)
class _Simulation:
    """What stays the same over the rounds of a simulation."""

    algorithm: Algorithm
    tasks: Tasks
    data: Federation
    rounds: int
    seed: int
    batching: Batching
    evaluation_batch: int
    oracle_validation: bool
    run_phase: RunPhase

    def moment(self, number: int) -> Moment:
        return Moment(round=number, rounds=self.rounds, seed=self.seed)

    def client(self, number: int, moment: Moment) -> Client:
        """A client as an algorithm sees it: without test data, unless the protocol openly hands it out."""
        data = self.data[number]
        return Client(
            id=number,
            task=self.tasks[number],
            train=data.train.alone(),
            validation=(data.test if self.oracle_validation else data.validation).alone(),
            moment=moment,
            batching=self.batching,
        )

    @property
    def different(self) -> Sequence[int]:
        """Clients whose network may be another than the first one's."""
        if isinstance(self.tasks.model, nn.Module):
            return ()
        first = facts_for(self.tasks.model, self.data, 0)
        return [at for at in range(1, len(self.data)) if facts_for(self.tasks.model, self.data, at) != first]

    def server_client(self) -> Client:
        """The server in a client's place, with the sample of training data that it holds."""
        fraction = self.algorithm.refinement.fraction if self.algorithm.refinement else 0.0
        held = self.data.sample_of_training(fraction, self.seed).alone()
        return Client(-1, self.tasks[0], held, held.take(slice(0)), self.moment(0), self.batching)

    def with_state(self, result: Result, number: int, moment: Moment) -> Client:
        received = self.algorithm.server.download(result.state, number, moment)
        return replace(self.client(number, moment), own=result.own.get(number, {}), received=received)

    def round(self, result: Result, chosen: Sequence[int], idle: Sequence[int], moment: Moment) -> "_Round":
        clients = [self.with_state(result, number, moment) for number in chosen]
        trained = client_round(self.algorithm, clients, self.run_phase)
        updates = [each.update for each in trained]
        own = {client.id: each.own for client, each in zip(clients, trained, strict=True)}
        absent = [self.with_state(result, number, moment) for number in idle]
        own |= dict(zip(idle, absent_round(self.algorithm, absent, self.run_phase), strict=True))
        return _Round(
            clients,
            trained,
            state=server_round(self.algorithm, result.state, updates, moment, self.server_client(), self.run_phase),
            own=own,
            traffic=[row for pair in zip(clients, updates, strict=True) for row in traffic(*pair)],
        )

    def evaluate(self, result: Result, done: "_Round", moment: Moment) -> list[Record]:
        """Every model of the method on every client's validation and test data."""
        records = []
        for client, each in zip(done.clients, done.trained, strict=True):
            records += self.records(client, each.tensors, "after_local", moment)
        # The download after this round is that of the next.
        after = replace(moment, round=moment.round + 1)
        for number in range(len(self.data)):
            client = enter(self.algorithm, self.with_state(result, number, after))
            before = begin(self.algorithm, client)
            records += self.records(client, before, "before_local", moment)
            if kept_names(self.algorithm, client.task, client.initial):
                stranger = replace(client, own={})
                records += self.records(stranger, begin(self.algorithm, stranger), "initial", moment)
            if self.algorithm.finetune:
                [tuned] = personalize(self.algorithm, [client], self.run_phase)
                records += self.records(client, tuned, "after_finetune", moment)
        return records

    def records(self, client: Client, tensors: Tensors, model: Model, moment: Moment) -> list[Record]:
        data = self.data[client.id]
        roles: dict[Literal["validation", "test"], Samples] = {"validation": data.validation, "test": data.test}
        return [
            Record(
                round=moment.round + 1,
                client=client.id,
                model=model,
                role=role,
                count=int(sums["count"]),
                correct=int(sums["correct"]) if "correct" in sums else None,
                loss=float(sums["loss"]),
            )
            for role, samples in roles.items()
            if len(samples)
            for sums in [measure(self.algorithm, client, tensors, samples, self.evaluation_batch)]
            if sums["count"]
        ]
