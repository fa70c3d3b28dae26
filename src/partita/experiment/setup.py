"""What stays the same over the rounds of a stage? The method, and every client's task and data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice

from torch import nn

from ..core.algorithm import Algorithm, RunPhase
from ..core.client import Client
from ..core.objectives import OBJECTIVES
from ..core.task import Task
from ..data.federation import Federation
from ..data.questions import unanswerable
from ..errors import PartitaError, warn
from ..evaluation.population import fixed_sample
from ..randomness import Moment
from ..tensors import Tensors
from .checks import (
    check_agreement,
    check_algorithm,
    check_clients,
    check_data,
    check_evaluation,
    check_participation,
)
from .experiment import ENGINES, Experiment, Stage
from .tasks import Tasks, facts_for
from .trial import try_network

MOST_TRIALS = 20


@dataclass(frozen=True, eq=False)
class Setup:
    """One stage of an experiment with everything that is needed to make its clients."""

    experiment: Experiment
    stage: Stage
    tasks: Tasks
    run_phase: RunPhase

    @classmethod
    def of(cls, experiment: Experiment, stage: Stage, weights: Tensors) -> "Setup":
        """`weights` replace initial weights by name."""
        criterion = OBJECTIVES[experiment.data.kind]
        make_task = partial(
            Task,
            loss=experiment.loss or criterion.loss,
            measure=experiment.measure or criterion.measure,
            groups=experiment.groups,
            buffers=experiment.buffers,
            frozen_norm=experiment.frozen_norm,
            device=experiment.device,
        )
        tasks = Tasks(experiment.model, experiment.data, experiment.seed, weights, make_task)
        engine = experiment.engine
        return cls(experiment, stage, tasks, ENGINES[engine]() if isinstance(engine, str) else engine)

    @property
    def algorithm(self) -> Algorithm:
        return self.stage.algorithm

    @property
    def data(self) -> Federation:
        return self.experiment.data

    def moment(self, round: int) -> Moment:
        return Moment(round=round, rounds=self.stage.rounds, seed=self.experiment.seed)

    def client(self, number: int, moment: Moment) -> Client:
        """A client as an algorithm sees it: without test data, except under `oracle_validation`."""
        data, task = self.data[number], self.tasks[number]
        validation = data.test if self.experiment.oracle_validation else data.validation
        return Client(
            id=number,
            task=task,
            train=data.train.alone(task.layout, task.device),
            validation=validation.alone(task.layout, task.device),
            moment=moment,
            batching=self.experiment.batching,
            name=self.data.name_of(number),
        )

    def without_data(self, number: int, moment: Moment) -> Client:
        """A client before it has looked at its data; -1 is the server in a client's place."""
        nothing = self.data.samples.take(slice(0))
        return Client(number, self.tasks[max(number, 0)], nothing, nothing, moment, self.experiment.batching)

    def with_state(self, number: int, own: Tensors, received: Tensors, moment: Moment) -> Client:
        """A client with its own state and what it received."""
        client = self.client(number, moment)
        return replace(client, own=client.task.place(own), received=client.task.place(received))

    def download(self, state: Tensors, number: int, moment: Moment) -> Tensors:
        """What a client receives, given the server's state."""
        return self.algorithm.server.download(state, number, moment)

    def server_client(self) -> Client:
        """The server as a client, with the sample of training data that it holds."""
        task, refinement = self.tasks[0], self.algorithm.refinement
        held = (
            self.data.sample_of_training(refinement.fraction, self.experiment.seed)
            if refinement
            else self.data.samples.take(slice(0))
        ).alone(task.layout, task.device)
        return Client(-1, task, held, held.take(slice(0)), self.moment(0), self.experiment.batching)

    def participants(self, moment: Moment) -> list[int]:
        """The clients that take part in a round."""
        newcomers = self.data.newcomers
        count = len(self.data) - len(newcomers)
        places = self.experiment.sampler(count, moment)
        if places != sorted(set(places)) or not all(0 <= place < count for place in places[:1] + places[-1:]):
            raise PartitaError(
                f"The sampler chose {places} of {count} clients. It must return each number at most once, in ascending "
                f"order, from 0 to {count - 1}."
            )
        if not newcomers:
            return places
        trainers = [client for client in range(len(self.data)) if client not in newcomers]
        return [trainers[at] for at in places]

    @property
    def evaluated(self) -> Sequence[int]:
        """The clients that are evaluated."""
        return fixed_sample(range(len(self.data)), self.experiment.evaluation_clients)

    @property
    def parameters(self) -> int:
        """How many numbers the network of a client has."""
        return sum(tensor.numel() for tensor in self.tasks[0].weights.values())

    @property
    def different(self) -> Sequence[int]:
        """Clients whose network may differ from the first client's."""
        model = self.tasks.model
        if self.tasks.same or isinstance(model, nn.Module):
            return ()
        first = facts_for(model, self.data, 0)
        return [at for at in range(1, len(self.data)) if facts_for(model, self.data, at) != first]

    def server_tensors(self, state: Tensors) -> Tensors:
        """The server's copy of all that a client holds. Parts that are never sent have their initial values."""
        nobody = self.without_data(-1, self.moment(self.stage.rounds))
        received, initial = self.download(state, -1, nobody.moment), self.algorithm.expand(nobody)
        return {name: received.get(name, tensor) for name, tensor in initial.items()}

    def network_weights(self, state: Tensors) -> Tensors:
        """The server's network. Parts that are never sent have their initial weights."""
        held = self.server_tensors(state)
        return {name: held[name] for name in self.tasks[0].weights}

    def check(self) -> None:
        """Refuse a set-up that makes no sense, and warn if the method amounts to another one."""
        for note in self.notes:
            warn(note)

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the set-up before it runs. A set-up that makes no sense is refused."""
        algorithm, data, experiment = self.algorithm, self.data, self.experiment
        check_clients(data)
        task = self.tasks[0]
        notes = check_data(algorithm, task, data, experiment.batching)
        check_evaluation(data, task, experiment.evaluation_batch)
        first = self.without_data(0, self.moment(0))
        notes += check_algorithm(algorithm, first)
        check_agreement(algorithm, first, (self.without_data(other, first.moment) for other in self.different))
        check_participation(self.stage.rounds, lambda round: self.participants(self.moment(round)))
        # The server of a federation holds no samples; each site makes these checks on its own.
        if len(data.samples):
            if algorithm.predict is None:
                # One client of each network; where every client has its own, the first ones.
                tried = {self.tasks[other]: other for other in [*islice(self.different, MOST_TRIALS), 0]}
                for number in sorted(tried.values()):
                    notes += try_network(self.client(number, first.moment), data, own_loss=experiment.loss is not None)
            if experiment.measure is None:
                notes += unanswerable(data, self.evaluated)
        return tuple(dict.fromkeys(notes))
