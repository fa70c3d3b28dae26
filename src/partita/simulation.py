"""What happens when clients and a server follow an algorithm for some rounds, all on this machine?"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

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
from .checks import check_algorithm, check_data
from .client import Client
from .errors import PartitaError
from .evaluation import Model, Record, Summary, measure, summarize
from .federation import Federation
from .randomness import Moment, generator, seeded
from .runners.reference import run_phase as reference
from .samples import Samples
from .server import Update
from .task import Buffers, Loss, Measure, Task, classification
from .tensors import Tensors

Factory = Callable[..., nn.Module]


@dataclass(frozen=True)
class Progress:
    """What is known after a round: rounds done, seconds taken, and accuracy where it was measured."""

    round: int
    rounds: int
    seconds: float
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

    def select(
        self, model: Model | None = None, *, round: int | None = None, role: Literal["validation", "test"] = "test"
    ) -> list[Record]:
        """Records by client: of the model that is meant to be used and of the last round, unless told otherwise."""
        wanted = (model or self.model, self.rounds if round is None else round, role)
        found = [record for record in self.records if (record.model, record.round, record.role) == wanted]
        if not found:
            known = sorted({(record.model, record.round) for record in self.records})
            raise PartitaError(f"Nothing was recorded for {wanted}. Recorded (model, round): {known}.")
        return found

    def accuracy(
        self, model: Model | None = None, *, round: int | None = None, role: Literal["validation", "test"] = "test"
    ) -> Summary:
        return summarize(self.select(model, round=round, role=role))

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
            "accuracy": asdict(self.accuracy()),
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


def make_module(model: nn.Module | Factory, data: Federation, seed: int) -> nn.Module:
    """A module as it is, or made by a factory with weights that depend on the seed alone."""
    if isinstance(model, nn.Module):
        return model
    with seeded(seed, "weights"):
        return model(shape=data.shape, classes=data.classes)


def simulate(
    algorithm: Algorithm,
    model: nn.Module | Factory,
    data: Federation,
    *,
    rounds: int = 20,
    seed: int = 0,
    participation: float = 1.0,
    batching: Batching = Batching(),
    loss: Loss = F.cross_entropy,
    measured_by: Measure = classification,
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
    >>> result = simulate(fedper(), mlp, digits(clients=5), rounds=2)
    >>> 0 < result.accuracy().macro <= 1
    True

    `weights` replaces initial weights by name, for instance with another result's `network_weights()`.
    `oracle_validation` hands the test data out as validation data, to reproduce publications that did so; the result
    says so.
    """
    if rounds < 1:
        raise PartitaError(f"{rounds} rounds: at least 1 is needed.")
    task = Task(
        make_module(model, data, seed),
        loss=loss,
        measure=measured_by,
        groups=groups,
        buffers=buffers,
        frozen_norm=frozen_norm,
    )
    _replace_weights_(task, weights or {})
    simulation = _Simulation(
        algorithm, task, data, rounds, seed, batching, evaluation_batch, oracle_validation, run_phase
    )
    check_algorithm(algorithm, simulation.client(0, simulation.moment(0)))
    check_data(algorithm, task, data.sizes, batching)
    result = Result(
        algorithm,
        task,
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
    for number in range(rounds):
        began = time.perf_counter()
        moment = simulation.moment(number)
        due = number + 1 == rounds or (evaluate_every > 0 and (number + 1) % evaluate_every == 0)
        chosen = participants(len(data), participation, moment)
        result = simulation.round(result, chosen, moment, evaluate=due)
        if on_round:
            accuracy = result.accuracy(round=number + 1) if due else None
            on_round(Progress(number + 1, rounds, time.perf_counter() - began, accuracy))
    return result


@dataclass(frozen=True)
class _Simulation:
    """What stays the same over the rounds of a simulation."""

    algorithm: Algorithm
    task: Task
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
            task=self.task,
            train=data.train,
            validation=data.test if self.oracle_validation else data.validation,
            moment=moment,
            batching=self.batching,
        )

    def server_client(self) -> Client:
        """The server in a client's place, with the sample of training data that it holds."""
        fraction = self.algorithm.refinement.fraction if self.algorithm.refinement else 0.0
        held = self.data.sample_of_training(fraction, self.seed)
        return Client(-1, self.task, held, held.take(slice(0)), self.moment(0), self.batching)

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
            if kept_names(self.algorithm, self.task, client.initial):
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
                correct=int(sums["correct"]),
                loss=float(sums["loss"]),
            )
            for role, samples in roles.items()
            if len(samples)
            for sums in [measure(self.algorithm, client, tensors, samples, self.evaluation_batch)]
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
