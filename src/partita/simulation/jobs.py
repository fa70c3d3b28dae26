"""What is done for clients in a round? They train, wait or are measured: each alone, so that any process can do it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from torch import nn

from ..core.algorithm import Algorithm, RunPhase, absent_round, begin, client_round, enter, kept_names, personalize
from ..core.batching import Batching
from ..core.client import Client
from ..core.samples import Samples
from ..core.server import Update
from ..data.federation import Federation
from ..evaluation.scores import HeldOut, Model, Record, measure_all, record_of
from ..randomness import Moment
from ..tensors import Tensors
from .tasks import Tasks, facts_for
from .traffic import Traffic, traffic

Deed = Literal["train", "wait", "measure"]


@dataclass(frozen=True)
class Job:
    """Something to do for some clients, with what each of them keeps."""

    deed: Deed
    clients: Sequence[int]
    own: Sequence[Tensors]
    moment: Moment
    measured: bool = False
    """Whether what was trained is measured too."""


@dataclass(frozen=True)
class Outcome:
    """What was done for one client: what it keeps, what it sends, and how good its models are."""

    client: int
    own: Tensors | None = None
    update: Update | None = None
    traffic: Sequence[Traffic] = ()
    records: Sequence[Record] = ()


@dataclass(frozen=True)
class Workshop:
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

    def do(self, job: Job, state: Tensors) -> list[Outcome]:
        """A job, given the server's state."""
        clients = [
            self.with_state(number, own, state, job.moment) for number, own in zip(job.clients, job.own, strict=True)
        ]
        return list(getattr(self, "_" + job.deed)(clients, job))

    def moment(self, number: int) -> Moment:
        return Moment(round=number, rounds=self.rounds, seed=self.seed)

    def client(self, number: int, moment: Moment) -> Client:
        """A client as an algorithm sees it: without test data, unless the protocol openly hands it out."""
        data, task = self.data[number], self.tasks[number]
        return Client(
            id=number,
            task=task,
            train=data.train.alone(task.layout, task.device),
            validation=(data.test if self.oracle_validation else data.validation).alone(task.layout, task.device),
            moment=moment,
            batching=self.batching,
        )

    def with_state(self, number: int, own: Tensors, state: Tensors, moment: Moment) -> Client:
        client = self.client(number, moment)
        received = self.algorithm.server.download(state, number, moment)
        return replace(client, own=client.task.place(own), received=client.task.place(received))

    @property
    def weights(self) -> int:
        """How many numbers the network of a client has."""
        return sum(tensor.numel() for tensor in self.tasks[0].weights.values())

    @property
    def different(self) -> Sequence[int]:
        """Clients whose network may be another than the first one's."""
        if self.tasks.same or isinstance(self.tasks.model, nn.Module):
            return ()
        first = facts_for(self.tasks.model, self.data, 0)
        return [at for at in range(1, len(self.data)) if facts_for(self.tasks.model, self.data, at) != first]

    def server_client(self) -> Client:
        """The server in a client's place, with the sample of training data that it holds."""
        task, refinement = self.tasks[0], self.algorithm.refinement
        held = (
            self.data.sample_of_training(refinement.fraction, self.seed)
            if refinement
            else self.data.samples.take(slice(0))
        ).alone(task.layout, task.device)
        return Client(-1, task, held, held.take(slice(0)), self.moment(0), self.batching)

    def _train(self, clients: Sequence[Client], job: Job) -> Iterator[Outcome]:
        for client, each in zip(clients, client_round(self.algorithm, clients, self.run_phase), strict=True):
            records = self._records(client, {"after_local": each.tensors}, job.moment) if job.measured else []
            # The server and the store are in main memory, wherever clients are.
            update = replace(
                each.update, values=_home(each.update.values), mask=each.update.mask and _home(each.update.mask)
            )
            yield Outcome(client.id, _home(each.own), update, traffic(client, update), records)

    def _wait(self, clients: Sequence[Client], job: Job) -> Iterator[Outcome]:
        for client, own in zip(clients, absent_round(self.algorithm, clients, self.run_phase), strict=True):
            yield Outcome(client.id, _home(own))

    def _measure(self, clients: Sequence[Client], job: Job) -> Iterator[Outcome]:
        """Every model of the method on every client's validation and test data, after the round before."""
        moment = replace(job.moment, round=job.moment.round - 1)
        for client in clients:
            client = enter(self.algorithm, client)
            models: dict[Model, Tensors] = {"before_local": begin(self.algorithm, client)}
            if kept_names(self.algorithm, client.task, client.initial):
                models["initial"] = begin(self.algorithm, replace(client, own={}))
            if self.algorithm.finetune:
                [models["after_finetune"]] = personalize(self.algorithm, [client], self.run_phase)
            yield Outcome(client.id, records=self._records(client, models, moment))

    def _records(self, client: Client, models: Mapping[Model, Tensors], moment: Moment) -> list[Record]:
        data, task = self.data[client.id], client.task
        roles: dict[HeldOut, Samples] = {"validation": data.validation, "test": data.test}
        return [
            record_of(sums, moment.round + 1, client.id, model, role)
            for role, samples in roles.items()
            if len(samples)
            for model, sums in measure_all(
                self.algorithm, client, models, samples.alone(task.layout, task.device), self.evaluation_batch
            ).items()
            if sums["count"]
        ]


def _home(tensors: Tensors) -> Tensors:
    return {name: tensor.cpu() for name, tensor in tensors.items()}
