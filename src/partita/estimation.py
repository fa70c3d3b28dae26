"""What will an experiment cost? Time, bytes and memory, from a few steps of a typical client."""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from torch import Tensor

from .algorithm import Algorithm, Trained, begin, client_round, enter, initial_state, kept_names
from .client import Client
from .evaluation import measure
from .experiment import Experiment
from .phases import Phase
from .processes import workers_of_machine
from .runners.fast import run_phase
from .samples import Samples
from .simulation import participants
from .tensors import Tensors
from .traffic import traffic

CALIBRATION_BATCHES = 20
EVALUATED = 256
IMPORTED = 250 * 2**20
"""What a process of Python and torch holds before it has any data."""


@dataclass(frozen=True)
class Estimate:
    """What a round costs, and all of them."""

    rounds: int
    clients: int
    clients_per_round: int
    workers: int
    training_seconds: float
    """Of one round, in one process."""
    evaluation_seconds: float
    """Of all clients once, in one process."""
    evaluations: int
    round_seconds: float
    """With all workers, evaluation shared out over the rounds."""
    bytes_down: int
    bytes_up: int
    masked: bool
    """Whether clients send only a part, which depends on what they learn; the bytes are then those of one client."""
    memory_bytes: int

    @property
    def total_seconds(self) -> float:
        return self.round_seconds * self.rounds

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "total_seconds": self.total_seconds}


def estimate(experiment: Experiment, workers: int | None = None) -> Estimate:
    """Costs of an experiment's own rounds; those of a pretraining before them are not counted."""
    count = workers or workers_of_machine()
    stage = experiment.stages[-1]
    algorithm, workshop = stage.algorithm, experiment.workshop(stage, {})
    data, moment = experiment.data, workshop.moment(0)
    trainers = [client for client in range(len(data)) if client not in data.newcomers]
    chosen = [trainers[at] for at in participants(len(trainers), experiment.participation, moment)]
    typical = sorted(trainers, key=data.size)[len(trainers) // 2]
    state = initial_state(algorithm, workshop.server_client(), data.sizes)
    client = workshop.with_state(typical, {}, state, moment)
    trained, step, fixed = _calibrate(algorithm, client)
    steps = sum(_steps(algorithm, workshop.client(each, moment)) for each in chosen)
    training = step * steps + fixed * len(chosen)
    per_sample = _seconds_per_sample(algorithm, client, data[typical].test, experiment.evaluation_batch)
    held = sum(len(roles["validation"]) + len(roles["test"]) for roles in data.roles)
    # A trained client has what it has after the download, and what it learned; one that keeps something, a third.
    models = 2 + bool(kept_names(algorithm, client.task, algorithm.expand(client)))
    finetuning = step * sum(_tuning_steps(algorithm, workshop.client(each, moment)) for each in range(len(data)))
    evaluation = per_sample * held * models + finetuning
    every = experiment.evaluate_every
    evaluations = len(
        {*range(every, experiment.rounds + 1, every), experiment.rounds} if every else {experiment.rounds}
    )
    rows = traffic(client, trained.update)
    return Estimate(
        rounds=experiment.rounds,
        clients=len(data),
        clients_per_round=len(chosen),
        workers=count,
        training_seconds=training,
        evaluation_seconds=evaluation,
        evaluations=evaluations,
        round_seconds=(training + evaluation * evaluations / experiment.rounds) / min(count, len(chosen)),
        bytes_down=sum(row.down for row in rows) * len(chosen),
        bytes_up=sum(row.up for row in rows) * len(chosen),
        masked=trained.update.mask is not None,
        memory_bytes=_memory(experiment, state, trained, count),
    )


def _calibrate(algorithm: Algorithm, client: Client) -> tuple[Trained, float, float]:
    """What a client sends, the seconds of a step, and those of a round beside its steps."""
    size = client.batching.size
    few, more = (_short(client, batches * size) for batches in (2, CALIBRATION_BATCHES))
    # The first round of all allocates what later ones find ready.
    [trained] = client_round(algorithm, [few], run_phase)
    times = []
    for each in (few, more):
        began = time.perf_counter()
        client_round(algorithm, [each], run_phase)
        times.append(time.perf_counter() - began)
    steps = [_steps(algorithm, each) for each in (few, more)]
    step = max(times[1] - times[0], 0.0) / (steps[1] - steps[0]) if steps[1] > steps[0] else times[1] / max(steps[1], 1)
    return trained, step, max(times[0] - step * steps[0], 0.0)


def _short(client: Client, samples: int) -> Client:
    return replace(client, train=client.train.take(slice(0, samples)).alone(client.task.layout))


def _steps(algorithm: Algorithm, client: Client) -> int:
    """How many steps a client makes in a round."""
    return sum(stage.steps_taken(client) for stage in algorithm.phases if isinstance(stage, Phase))


def _tuning_steps(algorithm: Algorithm, client: Client) -> int:
    return sum(stage.steps_taken(client) for stage in algorithm.finetune if isinstance(stage, Phase))


def _seconds_per_sample(algorithm: Algorithm, client: Client, samples: Samples, batch: int) -> float:
    client = enter(algorithm, client)
    tensors, some = begin(algorithm, client), samples.take(slice(0, EVALUATED))
    measure(algorithm, client, tensors, some, batch)
    began = time.perf_counter()
    measure(algorithm, client, tensors, some, batch)
    return (time.perf_counter() - began) / len(some)


def _memory(experiment: Experiment, state: Tensors, trained: Trained, workers: int) -> int:
    """Data once, the state at the server and at each worker, what all clients keep, and the processes themselves."""
    held = experiment.data.samples
    data = _bytes({"inputs": held.stored, "targets": held.targets})
    clients = len(experiment.data)
    # A worker holds the weights, their gradients, an optimizer's state and what it sends.
    work = workers * (IMPORTED + 4 * _bytes(trained.tensors))
    return IMPORTED + data + 2 * _bytes(state) + clients * _bytes(trained.own) + work


def _bytes(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
