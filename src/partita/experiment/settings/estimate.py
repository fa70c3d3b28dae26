"""What will an experiment cost? Time, bytes and memory, from a few steps of a typical client."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from statistics import mean

from torch import Tensor

from ...core.algorithm import Trained, begin, client_round, enter, initial_state, kept_names, personalize, server_round
from ...core.client import Client
from ...core.phases import Phase, Stage
from ...data.federation import Federation
from ...engine.fast import FastEngine
from ...evaluation.measurement import measure_all
from ...evaluation.variants import Variant
from ...tensors import Tensors
from ..executors.processes import workers_of_machine
from ..experiment import Experiment
from ..setup import Setup
from ..traffic import traffic

BATCHES = 2, 20
"""Epochs of the shorter and the longer calibration; they differ in the number of steps only."""
EVALUATED = 256
ROUNDS = 10
"""Rounds whose participants are counted: clients differ in size, and each round has others."""
UPDATES = 4
"""Updates that are aggregated to measure the time of one."""
REPETITIONS = 3
"""Repetitions of a measurement. The fastest counts, because other load only adds time."""
IMPORTED = 250 * 2**20
"""The memory of a process with Python and torch, before it has any data."""


@dataclass(frozen=True)
class Estimate:
    """The cost of one round and of all rounds."""

    rounds: int
    clients: int
    clients_per_round: int
    workers: int
    training_seconds: float
    """Training of one round, in one process."""
    server_seconds: float
    """The server's part of one round: aggregation, and its own training."""
    evaluation_seconds: float
    """One evaluation of all clients, in one process."""
    evaluations: int
    round_seconds: float
    """The seconds of a round with all workers, including its share of evaluation."""
    bytes_down: int
    bytes_up: int
    masked: bool
    """Whether clients send masked tensors. How much they send depends on training, so one client is measured."""
    memory_bytes: int

    @property
    def total_seconds(self) -> float:
        return self.round_seconds * self.rounds

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "total_seconds": self.total_seconds}


def estimate(experiment: Experiment, workers: int | None = None) -> Estimate:
    """Estimate the cost of an experiment's rounds, without those of pretraining."""
    count = workers or workers_of_machine()
    stage = experiment.stages[-1]
    # Features that are kept from one trial to the next would make training look too fast.
    setup = replace(Setup.of(experiment, stage, experiment.weights), run_phase=FastEngine(keep_features=False))
    algorithm, run_phase = stage.algorithm, setup.run_phase
    data = experiment.data
    trainers = [client for client in range(len(data)) if client not in data.newcomers]
    rounds = [setup.participants(setup.moment(number)) for number in range(min(ROUNDS, experiment.rounds))]
    chosen, evaluated = rounds[0], setup.evaluated
    typical = sorted(trainers, key=data.size)[len(trainers) // 2]
    state = initial_state(algorithm, setup.server_client(), data.sizes)
    first = setup.with_state(typical, {}, setup.download(state, typical, setup.moment(0)), setup.moment(0))
    [trained] = client_round(algorithm, [_short(first, BATCHES[0])], run_phase)
    # Measured as in a later round: some methods do less in the first.
    later = setup.moment(min(1, experiment.rounds - 1))
    client = enter(algorithm, replace(first, own=trained.own, moment=later))

    def with_data_of(number: int) -> Client:
        return replace(client, id=number, train=setup.client(number, later).train)

    learning = _calibrate(client, algorithm.phases, lambda each: client_round(algorithm, [each], run_phase))
    tuning = _calibrate(client, algorithm.finetune, lambda each: personalize(algorithm, [each], run_phase))
    each = {number: learning.of(with_data_of(number)) for number in {*chain.from_iterable(rounds)}}
    training = [[each[number] for number in some] for some in rounds]
    # A client cannot be divided between workers.
    together = [max(sum(costs) / count, *costs) for costs in training if costs]
    measuring = [tuning.of(with_data_of(number)) for number in evaluated] if algorithm.finetune else []
    learned, started = _seconds_per_sample(setup, client, trained)
    evaluation = sum(measuring) + learned * _held_out(data, chosen) + started * _held_out(data, evaluated)
    serving = _serving(setup, state, trained, len(chosen))
    evaluations = sum(experiment.is_evaluated(number + 1, stage) for number in range(experiment.rounds))
    rows = traffic(client, trained.update)
    return Estimate(
        rounds=experiment.rounds,
        clients=len(data),
        clients_per_round=len(chosen),
        workers=count,
        training_seconds=mean(map(sum, training)),
        server_seconds=serving,
        evaluation_seconds=evaluation,
        evaluations=evaluations,
        round_seconds=mean(together)
        + serving
        + evaluation / min(count, len(evaluated)) * evaluations / experiment.rounds,
        bytes_down=sum(row.down for row in rows) * len(chosen),
        bytes_up=sum(row.up for row in rows) * len(chosen),
        masked=trained.update.mask is not None,
        memory_bytes=_memory(experiment, state, trained, count),
    )


@dataclass(frozen=True)
class _Cost:
    """The seconds of a step of some stages, and the seconds of a client besides its steps."""

    stages: Sequence[Stage]
    step: float
    fixed: float

    def of(self, client: Client) -> float:
        return self.fixed + self.step * _steps(self.stages, client)


def _calibrate(client: Client, stages: Sequence[Stage], work: Callable[[Client], object]) -> _Cost:
    """Measure two short rounds of different length, each with freshly loaded data as in a real round."""

    def round_of(batches: int) -> object:
        return work(_short(client, batches))

    times = [_seconds(partial(round_of, batches)) for batches in BATCHES]
    steps = [_steps(stages, _short(client, batches)) for batches in BATCHES]
    longer = steps[1] > steps[0]
    step = max(times[1] - times[0], 0.0) / (steps[1] - steps[0]) if longer else times[1] / max(steps[1], 1)
    return _Cost(stages, step, max(times[0] - step * steps[0], 0.0))


def _seconds(work: Callable[[], object]) -> float:
    """Run once without measuring, because the first time allocates memory."""
    work()
    times = []
    for _ in range(REPETITIONS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def _short(client: Client, batches: int) -> Client:
    some = client.train.take(slice(0, batches * client.batching.size))
    return replace(client, train=some.alone(client.task.layout, client.task.device))


def _steps(stages: Sequence[Stage], client: Client) -> int:
    """How many steps a client makes."""
    return sum(stage.steps_taken(client) for stage in stages if isinstance(stage, Phase))


def _seconds_per_sample(setup: Setup, client: Client, trained: Trained) -> tuple[float, float]:
    """The seconds of evaluating a client after training, and of evaluating it before the next round."""
    algorithm, samples = setup.algorithm, setup.data[client.id].test.take(slice(0, EVALUATED))
    models: dict[Variant, Tensors] = {"before_local": begin(algorithm, client)}
    if kept_names(algorithm, client.task, client.initial):
        models["initial"] = begin(algorithm, replace(client, own={}))
    if algorithm.finetune:
        [models["after_finetune"]] = personalize(algorithm, [_short(client, BATCHES[0])], setup.run_phase)

    def measure(models: Mapping[Variant, Tensors]) -> object:
        fresh = samples.alone(client.task.layout, client.task.device)
        return measure_all(algorithm, client, models, fresh, setup.experiment.evaluation_batch)

    learned = _seconds(partial(measure, {"after_local": trained.tensors}))
    started = _seconds(partial(measure, models))
    return learned / max(len(samples), 1), started / max(len(samples), 1)


def _held_out(data: Federation, clients: Iterable[int]) -> int:
    return sum(len(data.roles[client]["validation"]) + len(data.roles[client]["test"]) for client in clients)


def _serving(setup: Setup, state: Tensors, trained: Trained, updates: int) -> float:
    """The seconds of aggregation, which grow with the updates, and of the server's own training, which do not."""

    def aggregate(count: int) -> object:
        some = [replace(trained.update, client=number) for number in range(count)]
        return server_round(setup.algorithm, state, some, setup.moment(0), holder, setup.run_phase)

    holder, few = setup.server_client(), min(updates, UPDATES)
    one, all_of_them = _seconds(partial(aggregate, 1)), _seconds(partial(aggregate, few))
    return one + max(all_of_them - one, 0.0) / max(few - 1, 1) * (updates - 1)


def _memory(experiment: Experiment, state: Tensors, trained: Trained, workers: int) -> int:
    """The memory of the data, the states of server and workers, all clients' states, and the processes themselves."""
    held = experiment.data.samples
    data = _bytes({"inputs": held.stored, "targets": held.targets})
    clients = len(experiment.data)
    # A worker holds the weights, their gradients, an optimizer's state and what it sends.
    work = workers * (IMPORTED + 4 * _bytes(trained.tensors))
    return IMPORTED + data + 2 * _bytes(state) + clients * _bytes(trained.own) + work


def _bytes(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
