"""Which models did a run leave? Every client as it is after the last round, made again from what was stored."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ..core.algorithm import Algorithm, enter
from ..data.federation import Federation
from ..data.manifests import fingerprint
from ..errors import PartitaError
from ..evaluation.analyses.subject import Subject
from ..experiment.experiment import Experiment, make
from ..randomness import Moment, generator
from ..simulation.jobs import Workshop
from ..simulation.result import Result
from ..tensors import Tensors
from .states import States
from .store import Store


@dataclass(frozen=True, eq=False)
class StoredClients(Mapping[int, Subject]):
    """The clients of a run by number, each made when it is asked for, so that few of them are in memory at a time."""

    workshop: Workshop
    moment: Moment
    """After the last round that was committed."""
    state: Tensors
    """The server's."""
    own: Mapping[int, Tensors]
    ids: tuple[int, ...]

    @property
    def algorithm(self) -> Algorithm:
        return self.workshop.algorithm

    @property
    def data(self) -> Federation:
        return self.workshop.data

    def __getitem__(self, number: int) -> Subject:
        if number not in self.ids:
            raise KeyError(number)
        client = self.workshop.with_state(number, self.own.get(number, {}), self.state, self.moment)
        classes = self.data.label_sets[number] if self.data.label_sets else None
        test = self.data[number].test.alone(client.task.layout, client.task.device)
        return Subject(self.algorithm, enter(self.algorithm, client), test, classes, self.workshop.run_phase)

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def sample(self, most: int) -> "StoredClients":
        """Those who train, or of more than `most` a sample, the same for every run on the same clients."""
        trainers = [number for number in self.ids if number not in self.data.newcomers]
        order = torch.randperm(len(trainers), generator=generator(0, "evaluated clients"))
        return replace(self, ids=tuple(sorted(trainers[at] for at in order[:most].tolist())))


def stored_clients(folder: Path) -> StoredClients:
    """All clients of a run, newcomers too, with what they keep and receive after the last committed round."""
    with Store.open(folder) as store:
        about = store.about
        experiment = experiment_of(folder, about)
        stage = experiment.stages[-1]
        found = store.server(stage.name)
        if found is None:
            raise PartitaError(f"{folder} has no round yet. Continue it with: partita resume {folder}")
        done, state = found
        workshop = experiment.workshop(stage, _pretrained(experiment, store))
        own = States(store, stage.name, about["budget"])
        return StoredClients(workshop, workshop.moment(done), state, own, tuple(range(len(experiment.data))))


def experiment_of(folder: Path, about: Mapping[str, Any]) -> Experiment:
    """The experiment of a run, on the same data as then."""
    experiment = make(about["settings"])
    if fingerprint(experiment.data) != about["fingerprint"]:
        raise PartitaError(
            f"The data are not those that {folder} was started with: values or division differ. Restore "
            "the files (PARTITA_DATA), or start a new run."
        )
    return experiment


def _pretrained(experiment: Experiment, store: Store) -> Tensors:
    """The weights that the run began with, where it was pretrained."""
    weights: Tensors = {}
    for stage in experiment.stages[:-1]:
        found = store.server(stage.name)
        if found is None:
            raise PartitaError(f"{store.folder} is not pretrained yet. Continue it with: partita resume {store.folder}")
        task = experiment.workshop(stage, weights).tasks[0]
        left = Result(stage.algorithm, task, experiment.data, stage.rounds, experiment.seed, {}, found[1], {})
        weights = left.network_weights()
    return weights
