"""Whose models are analysed? The clients of a run, each with its models after the last round."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..core.algorithm import Algorithm, RunPhase, begin, personalize
from ..core.client import Client
from ..core.samples import Samples
from ..core.task import Task
from ..data.federation import Federation
from ..errors import PartitaError
from ..randomness import generator
from ..tensors import Tensors
from .measurement import measure
from .scores import Record, record_of, used_variant
from .variants import Variant

BATCH = 512


@dataclass(frozen=True, eq=False)
class ClientModels:
    """A client after the last round, and its models, which are made when they are first asked for."""

    algorithm: Algorithm
    client: Client
    """The client as the algorithm sees it: without test data, with the initial tensors of the algorithm."""
    test: Samples
    run_phase: RunPhase
    """The engine of the experiment."""
    batch: int = BATCH
    """How many samples are evaluated at a time."""
    classes: Tensor | None = None
    """The classes that the client has, where each client numbers its own."""
    validation: Samples | None = None
    """The client's own, also where the algorithm is given test data for it."""

    @cached_property
    def before(self) -> Tensors:
        """The tensors of the variant `before_local`: after the download, before any training."""
        return begin(self.algorithm, self.client)

    @cached_property
    def used(self) -> Tensors:
        """The tensors of the model that the method is meant to be used with: fine-tuned, where the method does so."""
        if not self.algorithm.finetune:
            return self.before
        with torch.enable_grad():
            # The caller may have turned gradients off.
            [tuned] = personalize(self.algorithm, [self.client], self.run_phase)
        return tuned

    def of(self, variant: Variant | None = None) -> Tensors:
        """The tensors of a variant, by default of the one that the method is meant to be used with."""
        if variant is None or variant == used_variant(self.algorithm):
            return self.used
        if variant == "before_local":
            return self.before
        if variant == "initial":
            return begin(self.algorithm, replace(self.client, own={}))
        raise PartitaError(
            f"There is no model {variant!r} of {self.algorithm.label} after the last round: choose 'initial' or "
            f"{' or '.join(map(repr, dict.fromkeys(('before_local', used_variant(self.algorithm)))))}."
        )

    def weights(self, tensors: Tensors) -> Tensors:
        """The weights of the network, from this client's tensors."""
        return self.algorithm.view.weights(tensors, self.client.task.network)

    def record(self, tensors: Tensors, samples: Samples) -> Record:
        """The score of a model of this client on samples."""
        sums = measure(self.algorithm, self.client, tensors, samples, self.batch)
        return record_of(sums, self.client.moment.round, self.client.id)


def _no_other_run(folder: Path) -> "Population":
    raise PartitaError(f"{folder} cannot be opened: these clients do not come from a stored run.")


def _tell_nobody(done: int, total: int) -> None:
    """Progress is not shown."""


Measure = Callable[[ClientModels, Tensors | None], Any]
"""What an analysis measures of a client, given another network's weights where it compares. Workers may call it."""
Beside = Callable[[int], Tensors]
"""The weights of another network for a client."""
Apply = Callable[["Population", str, Measure, Beside | None], Iterator[tuple[int, Any]]]


def apply_here(
    population: "Population", what: str, measure: Measure, beside: Beside | None
) -> Iterator[tuple[int, Any]]:
    """One client after another, in this process."""
    for number in population:
        yield number, measure(population[number], beside(number) if beside else None)


@dataclass(frozen=True, eq=False)
class Population(Mapping[int, ClientModels]):
    """The clients of a run by number. Each is built when it is asked for, so that only a few are in memory."""

    algorithm: Algorithm
    data: Federation
    task: Task
    """The task of the first client."""
    build: Callable[[int], ClientModels]
    numbers: Sequence[int]
    evaluation_clients: int = 10_000
    """The largest number of clients that the run itself evaluates."""
    folder: Path = Path()
    baselines: Mapping[str, Path] = field(default_factory=dict)
    """The folders of the baselines that the run names."""
    open: Callable[[Path], "Population"] = _no_other_run
    """The clients of the run in another folder."""
    on_client: Callable[[int, int], None] = _tell_nobody
    """Called after each client with the number of clients done and the number of all."""
    network: object = None
    """The factory of clients' networks, or the module."""
    apply: Apply = apply_here
    """How something is measured of every client."""

    def __getitem__(self, number: int) -> ClientModels:
        if number not in self._known:
            raise KeyError(number)
        return self.build(number)

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def _known(self) -> frozenset[int]:
        return frozenset(self.numbers)

    def sample(self, most: int) -> "Population":
        """The clients that train; of more than `most`, a sample that is the same for every run on these clients."""
        if most < 1:
            raise PartitaError(f"The number of clients is {most}, but must be at least 1.")
        trainers = [number for number in self.numbers if number not in self.data.newcomers]
        return replace(self, numbers=fixed_sample(trainers, most))

    def measured(self, most: int, what: str, measure: Measure, beside: Beside | None = None) -> dict[int, Any]:
        """What is measured of a sample of clients, by client; `what` names it, and `beside` is the other network."""
        chosen, found = self.sample(most), dict[int, Any]()
        for number, each in self.apply(chosen, what, measure, beside):
            found[number] = each
            self.on_client(len(found), len(chosen))
        return {number: found[number] for number in chosen}

    def models(self, most: int) -> Iterator[ClientModels]:
        """The models of a sample of clients, one client after another."""
        chosen = self.sample(most)
        for done, number in enumerate(chosen, 1):
            yield chosen.build(number)
            self.on_client(done, len(chosen))


def fixed_sample(clients: Sequence[int], most: int) -> Sequence[int]:
    """All clients; if they are more than `most`, a sample that is the same for every round, method and run."""
    if len(clients) <= most:
        return clients
    order = torch.randperm(len(clients), generator=generator(0, "evaluated clients"))
    return sorted(clients[at] for at in order[:most].tolist())
