"""What happens when clients and a server follow an algorithm for some rounds, all on this machine?"""

import inspect
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .algorithm import (
    Algorithm,
    RunPhase,
    Trained,
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
from .evaluation import Model, Record, Summary, measure, summarize
from .federation import Federation, federate
from .objectives import OBJECTIVES, Loss, Measure
from .pool import Pool
from .randomness import Moment, generator, seeded
from .runners.reference import run_phase as reference
from .samples import Samples
from .server import Update
from .task import Buffers, Task
from .tensors import Tensors

Factory = Callable[..., nn.Module]


@dataclass(frozen=True)
class Progress:
    """What is known after a round: rounds done, seconds taken, and accuracy where it was measured."""

    round: int
    rounds: int
    seconds: float
    metric: str
    accuracy: Summary | None


@dataclass(frozen=True)
class Traffic:
    """Bytes of one client in one round."""

    round: int
    client: int
    down: int
    up: int


@dataclass(frozen=True, eq=False)
class Result:
    """Everything a simulation leaves: metrics by client, the server's state, and what every client keeps."""

    algorithm: Algorithm
    task: Task
    data: Federation
    rounds: int
    seed: int
    protocol: dict[str, object]
    state: Tensors
    own: dict[int, Tensors]
    records: list[Record] = field(default_factory=list)
    traffic: list[Traffic] = field(default_factory=list)

    @property
    def model(self) -> Model:
        """The model that the method is meant to be used with."""
        return "after_finetune" if self.algorithm.finetune else "before_local"

    @property
    def metric(self) -> str:
        """What a score is: accuracy, or the root of the mean squared error."""
        return "RMSE" if self.data.kind == "regression" else "accuracy"

    def select(
        self,
        model: Model | None = None,
        *,
        round: int | None = None,
        role: Literal["validation", "test"] = "test",
        newcomers: bool = False,
    ) -> list[Record]:
        """Records by client: of the model that is meant to be used, of the last round and of those who train.

        Newcomers, which never train, are told apart.
        """
        wanted = (model or self.model, self.rounds if round is None else round, role)
        found = [
            record
            for record in self.records
            if (record.model, record.round, record.role) == wanted
            and (record.client in self.data.newcomers) == newcomers
        ]
        if not found:
            known = sorted({(record.model, record.round) for record in self.records})
            raise PartitaError(f"Nothing was recorded for {wanted}. Recorded (model, round): {known}.")
        return found

    def accuracy(
        self,
        model: Model | None = None,
        *,
        round: int | None = None,
        role: Literal["validation", "test"] = "test",
        newcomers: bool = False,
    ) -> Summary:
        """The score over clients: accuracy, or for regression the root of the mean squared error."""
        return summarize(self.select(model, round=round, role=role, newcomers=newcomers))

    @property
    def bytes_per_round(self) -> float:
        """Down and up, of all clients that took part."""
        return sum(each.down + each.up for each in self.traffic) / self.rounds

    def as_dict(self) -> dict[str, object]:
        """What can be written as JSON: everything but tensors."""
        return {
            "algorithm": self.algorithm.label,
            "data": self.data.name,
            "rounds": self.rounds,
            "seed": self.seed,
            "protocol": self.protocol,
            "model": self.model,
            "metric": self.metric,
            "accuracy": asdict(self.accuracy()),
            "newcomers": asdict(self.accuracy(newcomers=True)) if self.data.newcomers else None,
            "bytes_per_round": self.bytes_per_round,
            "records": [asdict(record) for record in self.records],
        }

    def network_weights(self) -> Tensors:
        """The server's network; parts that never leave the clients have their initial weights."""
        moment = Moment(self.rounds, self.rounds, self.seed)
        received = self.algorithm.server.download(self.state, -1, moment)
        nothing = self.data.samples.take(slice(0))
        initial = self.algorithm.expand(Client(-1, self.task, nothing, nothing, moment))
        return {name: received.get(name, initial[name]) for name in self.task.weights}


def participants(count: int, fraction: float, moment: Moment) -> list[int]:
    """Who takes part in a round: floor(fraction * count) clients, at least one; the same for every method."""
    if not 0 < fraction <= 1:
        raise PartitaError(f"A participation of {fraction}: it must be above 0 and at most 1.")
    chosen = max(math.floor(fraction * count + 1e-9), 1)
    order = torch.randperm(count, generator=generator(moment.seed, "participants", moment.round))
    return sorted(order[:chosen].tolist())


def facts_for(model: Factory, data: Federation, client: int) -> dict[str, Any]:
    """What a factory asks for of what the data and the client say."""
    known = {"shape": data.shape, "classes": data.classes_of(client), "client": client, **data.facts}
    parameters = inspect.signature(model).parameters
    bound = model.keywords if isinstance(model, partial) else {}
    wanted = parameters.keys() - bound.keys()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        wanted |= {"shape", "classes"}
    facts = {name: fact for name, fact in known.items() if name in wanted}
    for name, parameter in parameters.items():
        optional = parameter.default is not inspect.Parameter.empty or parameter.kind is inspect.Parameter.VAR_KEYWORD
        if not optional and name not in facts:
            raise PartitaError(f"The network needs {name}, which {data.name} does not say. Set model.{name}.")
    return facts


@dataclass
class Tasks:
    """A task for every client: one and the same, unless the network depends on the client.

    A module is taken as it is; a factory makes weights that depend on the seed alone.
    """

    model: nn.Module | Factory
    data: Federation
    seed: int
    weights: Tensors
    make_task: Callable[[nn.Module], Task]
    made: dict[str, Task] = field(default_factory=dict)

    def __getitem__(self, client: int) -> Task:
        facts = {} if isinstance(self.model, nn.Module) else facts_for(self.model, self.data, client)
        key = repr(facts)
        if key not in self.made:
            if isinstance(self.model, nn.Module):
                module = self.model
            else:
                with seeded(self.seed, "weights"):
                    module = self.model(**facts)
            self.made[key] = self.make_task(module)
            _replace_weights_(self.made[key], self.weights)
        return self.made[key]


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
    run_phase: RunPhase = reference,
) -> Result:
    """Run an algorithm and evaluate it on all clients every so many rounds and at the end.

    >>> from partita import digits, fedper, mlp, simulate
    >>> result = simulate(fedper(), mlp, digits(), rounds=2)
    >>> 0 < result.accuracy().macro <= 1
    True

    `weights` replaces initial weights by name, for instance with another result's `network_weights()`.
    `oracle_validation` hands the test data out as validation data, to reproduce publications that did so; the result
    says so.
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
    start = simulation.moment(0)
    others = (simulation.client(number, start) for number in simulation.different)
    check_agreement(algorithm, simulation.client(0, start), others)
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
        state=initial_state(algorithm, simulation.server_client(), data.sizes),
        own={},
    )
    trainers = [client for client in range(len(data)) if client not in data.newcomers]
    for number in range(rounds):
        began = time.perf_counter()
        moment = simulation.moment(number)
        due = number + 1 == rounds or (evaluate_every > 0 and (number + 1) % evaluate_every == 0)
        chosen = [trainers[at] for at in participants(len(trainers), participation, moment)]
        result = simulation.round(result, chosen, moment, evaluate=due)
        if on_round:
            accuracy = result.accuracy(round=number + 1) if due else None
            on_round(Progress(number + 1, rounds, time.perf_counter() - began, result.metric, accuracy))
    return result


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

    def round(self, result: Result, chosen: Sequence[int], moment: Moment, *, evaluate: bool) -> Result:
        clients = [self.with_state(result, number, moment) for number in chosen]
        trained = client_round(self.algorithm, clients, self.run_phase)
        updates = [each.update for each in trained]
        state = server_round(self.algorithm, result.state, updates, moment, self.server_client(), self.run_phase)
        own = result.own | {client.id: each.own for client, each in zip(clients, trained, strict=True)}
        traffic = [_traffic(client, update) for client, update in zip(clients, updates, strict=True)]
        new = replace(result, state=state, own=own, traffic=result.traffic + traffic)
        if not evaluate:
            return new
        return replace(new, records=result.records + self.evaluate(new, clients, trained, moment))

    def evaluate(
        self, result: Result, trained_clients: Sequence[Client], trained: Sequence[Trained], moment: Moment
    ) -> list[Record]:
        """Every model of the method on every client's validation and test data."""
        records = []
        for client, each in zip(trained_clients, trained, strict=True):
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


def _replace_weights_(task: Task, weights: Tensors) -> None:
    for name, tensor in weights.items():
        if name not in task.weights or task.weights[name].shape != tensor.shape:
            raise PartitaError(f"Given weights do not fit the network: {name} of shape {tuple(tensor.shape)}.")
        task.weights[name] = tensor.detach().clone()


def _traffic(client: Client, update: Update) -> Traffic:
    return Traffic(
        round=client.moment.round + 1,
        client=client.id,
        down=sum(size(tensor) for tensor in client.received.values()),
        up=sum(size(value, (update.mask or {}).get(name)) for name, value in update.values.items()),
    )


def size(tensor: Tensor, mask: Tensor | None = None) -> int:
    """Bytes on the wire; of a masked tensor the entries sent and a bit for each entry."""
    if mask is None:
        return tensor.numel() * tensor.element_size()
    return int(mask.sum()) * tensor.element_size() + math.ceil(tensor.numel() / 8)
