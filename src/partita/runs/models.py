"""Which model has each client of a stored run? As it was evaluated last: from its state and the server's."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from ..algorithm import Algorithm, begin, enter, personalize, shared_names
from ..client import Client
from ..errors import PartitaError
from ..evaluation import Model
from ..experiment import Experiment, make
from ..manifests import fingerprint
from ..objectives import OBJECTIVES
from ..randomness import Moment, seeded
from ..runners.reference import run_phase
from ..samples import Samples
from ..task import Task
from ..tasks import Tasks
from ..tensors import Tensors
from .states import States
from .store import Store


@dataclass(frozen=True, eq=False)
class Models:
    """The clients of a run that is done, with their tensors. Test data are in reach here: this is for evaluation."""

    experiment: Experiment
    algorithm: Algorithm
    state: Tensors
    own: States
    tasks: Tasks
    moment: Moment

    @property
    def model(self) -> Model:
        """The one that the method is meant to be used with."""
        return "after_finetune" if self.algorithm.finetune else "before_local"

    @property
    def trainers(self) -> list[int]:
        data = self.experiment.data
        return [client for client in range(len(data)) if client not in data.newcomers]

    def client(self, number: int) -> Client:
        data = self.experiment.data[number]
        held_out = data.test if self.experiment.oracle_validation else data.validation
        return enter(
            self.algorithm,
            Client(
                id=number,
                task=self.tasks[number],
                train=data.train.alone(),
                validation=held_out.alone(),
                moment=self.moment,
                batching=self.experiment.batching,
                own=self.own.get(number, {}),
                received=self.algorithm.server.download(self.state, number, self.moment),
            ),
        )

    def tensors(self, client: Client, model: Model) -> Tensors:
        """Of the model before local training, or fine-tuned."""
        if model == "after_finetune":
            [tuned] = personalize(self.algorithm, [client], run_phase)
            return tuned
        return begin(self.algorithm, client)

    @property
    def shares_everything(self) -> bool:
        """Whether what a client receives is a whole network, which answers by itself."""
        task = self.tasks[0]
        names = frozenset(enter(self.algorithm, self.client(self.trainers[0])).initial)
        return self.algorithm.predict is None and task.network.parameters <= shared_names(self.algorithm, task, names)

    def received_network(self, client: Client) -> Tensors:
        """The network as received; what never travels is the client's own."""
        begun = begin(self.algorithm, client)
        return {name: client.received.get(name, begun[name]) for name in client.task.weights}

    def outputs(self, client: Client, tensors: Tensors, samples: Samples, *, plain: bool = False) -> Iterator[Tensor]:
        """Answers batch by batch, as the run was evaluated; `plain` asks the network itself, whatever the method."""
        client.task.evaluate_()
        size = self.experiment.evaluation_batch
        for at in range(0, len(samples), size):
            inputs = samples.take(slice(at, at + size)).inputs
            with torch.no_grad(), seeded(self.moment.seed, "evaluation", self.moment.round, client.id):
                yield client.task.outputs(tensors, inputs) if plain else self.algorithm.outputs(tensors, inputs, client)


@contextmanager
def models_of(folder: Path) -> Iterator[Models]:
    """Of a run that is done. Clients' states are read as they are asked for, so the run stays open within."""
    with Store.open(folder) as store:
        about = store.about
        if about["status"] != "done":
            raise PartitaError(f"{folder} is not done. Continue it with: partita resume {folder}")
        experiment = make(about["settings"])
        if fingerprint(experiment.data) != about["fingerprint"]:
            raise PartitaError(f"The data are not those of {folder}: values or division differ.")
        weights: Tensors = {}
        for stage in experiment.stages:
            found = store.server(stage.name)
            if found is None:
                raise PartitaError(f"{folder} holds no state of its stage {stage.name!r}.")
            last = Models(
                experiment,
                stage.algorithm,
                found[1],
                States(store, stage.name, about["budget"]),
                _tasks(experiment, weights),
                Moment(round=stage.rounds, rounds=stage.rounds, seed=experiment.seed),
            )
            weights = _network_weights(last)
        yield last


def _tasks(experiment: Experiment, weights: Tensors) -> Tasks:
    objective = OBJECTIVES[experiment.data.kind]
    made = partial(
        Task,
        loss=objective.loss,
        measure=objective.measure,
        buffers=experiment.buffers,
        frozen_norm=experiment.frozen_norm,
    )
    return Tasks(experiment.model, experiment.data, experiment.seed, weights, made)


def _network_weights(models: Models) -> Tensors:
    """What the next stage starts from: the server's network."""
    nothing = models.experiment.data.samples.take(slice(0))
    server = Client(-1, models.tasks[0], nothing, nothing, models.moment)
    received = models.algorithm.server.download(models.state, -1, models.moment)
    return models.received_network(enter(models.algorithm, replace(server, received=received)))
