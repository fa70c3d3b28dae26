"""What is done for clients in a round? They train, are absent or are evaluated, each independently of the others."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.algorithm import absent_round, begin, client_round, enter, kept_names, personalize
from ..core.client import Client
from ..core.objectives import Outcome
from ..core.samples import Samples
from ..core.server import Update
from ..core.soundness import check_sound
from ..errors import DivergedError
from ..evaluation.measurement import measure_all
from ..evaluation.outcomes import Outcomes, outcomes_of
from ..evaluation.population import Measure
from ..evaluation.scores import HeldOut, Record, record_of, used_variant
from ..evaluation.variants import Variant
from ..randomness import Moment
from ..tensors import Tensors
from .population import models_of
from .setup import Setup
from .traffic import Traffic, traffic

SAMPLES_PER_JOB = 512
"""Small clients are grouped into one job up to this many samples."""
PARAMETERS_PER_SAMPLE = 10_000
"""Copying this many parameters takes about as long as training on one sample."""


@dataclass(frozen=True)
class ClientResult:
    """The result of a job for one client: its new state, its update, and the scores of its models."""

    client: int
    own: Tensors | None = None
    update: Update | None = None
    traffic: Sequence[Traffic] = ()
    records: Sequence[Record] = ()
    outcomes: Sequence[Outcomes] = ()
    problem: str | None = None
    """The reason why the client is left out; such a result has nothing else."""
    measured: Any = None
    """What an analysis found."""


@dataclass(frozen=True)
class Job(ABC):
    """Work for some clients, with the state and the download of each."""

    clients: Sequence[int]
    own: Sequence[Tensors]
    received: Sequence[Tensors]
    moment: Moment

    def run(self, setup: Setup) -> Iterator[ClientResult]:
        """The results of all clients together; if one of them diverges and may be left out, of each separately."""
        clients = self.participants(setup)
        if setup.experiment.on_sick_client != "leave_out":
            yield from self.results(setup, clients)
            return
        try:
            found = list(self.results(setup, clients))
        except DivergedError:
            found = [self._alone(setup, client) for client in clients]
        yield from found

    @abstractmethod
    def results(self, setup: Setup, clients: Sequence[Client]) -> Iterator[ClientResult]: ...

    def _alone(self, setup: Setup, client: Client) -> ClientResult:
        try:
            [found] = self.results(setup, [client])
        except DivergedError as problem:
            return ClientResult(client.id, problem=str(problem))
        return found

    def participants(self, setup: Setup) -> list[Client]:
        return [
            setup.with_state(number, own, received, self.moment)
            for number, own, received in zip(self.clients, self.own, self.received, strict=True)
        ]


@dataclass(frozen=True)
class Train(Job):
    """A round of clients that take part."""

    evaluated: bool = False
    """Whether the models right after training are measured."""

    def results(self, setup: Setup, clients: Sequence[Client]) -> Iterator[ClientResult]:
        for client, each in zip(clients, client_round(setup.algorithm, clients, setup.run_phase), strict=True):
            check_sound(each, client, setup.experiment.max_update_norm)
            records = _measured(setup, client, {"after_local": each.tensors}, self.moment)[0] if self.evaluated else []
            # The server and the store are in main memory, whatever device clients use.
            update = each.update if client.task.device.type == "cpu" else _moved(each.update)
            yield ClientResult(client.id, _on_cpu(each.own), update, traffic(client, update), records)


@dataclass(frozen=True)
class StayAway(Job):
    """A round of clients that do not take part, for methods that train them too."""

    def results(self, setup: Setup, clients: Sequence[Client]) -> Iterator[ClientResult]:
        for client, own in zip(clients, absent_round(setup.algorithm, clients, setup.run_phase), strict=True):
            yield ClientResult(client.id, _on_cpu(own))


@dataclass(frozen=True)
class Evaluate(Job):
    """Evaluate every model of the method on clients' validation and test data, after the round before this moment."""

    each: bool = False
    """Whether to return the outcome of each test sample, under the model that the method is meant to be used with."""

    def results(self, setup: Setup, clients: Sequence[Client]) -> Iterator[ClientResult]:
        algorithm = setup.algorithm
        moment = replace(self.moment, round=self.moment.round - 1)
        for client in clients:
            client = enter(algorithm, client)
            models: dict[Variant, Tensors] = {"before_local": begin(algorithm, client)}
            if kept_names(algorithm, client.task, client.initial):
                models["initial"] = begin(algorithm, replace(client, own={}))
            if algorithm.finetune:
                [models["after_finetune"]] = personalize(algorithm, [client], setup.run_phase)
            records, outcomes = _measured(setup, client, models, moment, each=self.each)
            yield ClientResult(client.id, records=records, outcomes=outcomes)


@dataclass(frozen=True)
class Apply(Job):
    """Measure something of clients' models, beside another network's weights where there are any."""

    measure: Measure
    beside: Sequence[Tensors | None]

    def run(self, setup: Setup) -> Iterator[ClientResult]:
        return self.results(setup, self.participants(setup))

    def results(self, setup: Setup, clients: Sequence[Client]) -> Iterator[ClientResult]:
        for client, other in zip(clients, self.beside, strict=True):
            yield ClientResult(client.id, measured=self.measure(models_of(setup, client), other))


def jobs(
    kind: type[Job],
    setup: Setup,
    clients: Iterable[int],
    states: Mapping[int, Tensors],
    server_state: Tensors,
    moment: Moment,
    **options: bool,
) -> Iterator[Job]:
    """Jobs for clients, the largest first. Small clients are grouped, so that each does not cost a message.

    The cost of a client is its number of samples plus the cost of copying its weights.
    """
    ordered = sorted(clients, key=lambda client: (-setup.data.size(client), client))
    for some in batches_of(ordered, setup):
        own = [states.get(each, {}) for each in some]
        received = [setup.download(server_state, each, moment) for each in some]
        yield kind(some, own, received, moment, **options)


def batches_of(clients: Sequence[int], setup: Setup) -> Iterator[list[int]]:
    """Clients of a job together, up to a number of samples."""
    some: list[int] = []
    cost, copying = 0.0, setup.parameters / PARAMETERS_PER_SAMPLE
    for client in clients:
        own = setup.data.size(client) + copying
        if some and cost + own > SAMPLES_PER_JOB:
            yield some
            some, cost = [], 0.0
        some.append(client)
        cost += own
    if some:
        yield some


def _measured(
    setup: Setup, client: Client, models: Mapping[Variant, Tensors], moment: Moment, *, each: bool = False
) -> tuple[list[Record], list[Outcomes]]:
    data, task, batch = setup.data[client.id], client.task, setup.experiment.evaluation_batch
    roles: dict[HeldOut, Samples] = {"validation": data.validation, "test": data.test}
    round, used = moment.round + 1, used_variant(setup.algorithm)
    batches: dict[Variant, list[Outcome]] = {used: []} if each else {}
    records = [
        record_of(sums, round, client.id, variant, role)
        for role, samples in roles.items()
        if len(samples)
        for variant, sums in measure_all(
            setup.algorithm,
            client,
            models,
            samples.alone(task.layout, task.device),
            batch,
            batches if role == "test" else None,
        ).items()
        if sums["count"]
    ]
    found = outcomes_of(batches[used], round, client.id, used, setup.data.metric) if batches.get(used) else None
    return records, [found] if found else []


def _moved(update: Update) -> Update:
    return replace(update, values=_on_cpu(update.values), mask=update.mask and _on_cpu(update.mask))


def _on_cpu(tensors: Tensors) -> Tensors:
    return {name: tensor.cpu() for name, tensor in tensors.items()}
