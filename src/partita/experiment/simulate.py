"""How is an experiment run without keeping it? All in memory, and the result is returned."""

from dataclasses import fields

from torch import nn
from typing_extensions import Unpack

from ..core.algorithm import Algorithm
from ..core.signatures import check_names, named_arguments
from ..data.federation import Federation, federate
from ..data.pool import Pool
from ..evaluation.scores import Record
from ..tensors import Tensors
from .arguments import need_parts
from .events import OnEvent, ignore
from .executor import Executor, executor_of
from .experiment import Experiment, Options
from .left_out import LeftOut
from .result import Result
from .rounds import rounds
from .setup import Setup
from .tasks import Factory
from .traffic import Traffic


@named_arguments
def simulate(
    algorithm: Algorithm,
    model: nn.Module | Factory,
    data: Federation | Pool,
    *,
    on: Executor | str | None = None,
    on_event: OnEvent = ignore,
    **options: Unpack[Options],
) -> Result:
    """Run an algorithm on a network and data, and evaluate it on all clients at intervals and at the end.

    >>> from partita import digits, fedper, mlp, simulate
    >>> result = simulate(fedper(), mlp, digits(), rounds=2)
    >>> 0 < result.score().macro <= 1
    True

    `options` are the fields of `Experiment`: rounds, seed, participation, batching and others. `on` is the executor, by
    default one process for each core; it does not change the result. `on_event` is called when a round has ended.
    Nothing is written to disk: use `partita.run` to keep a run.
    """
    return run_stages(experiment_of(algorithm, model, data, options), executor_of(on), on_event)


def experiment_of(
    algorithm: Algorithm, model: nn.Module | Factory, data: Federation | Pool, options: Options
) -> Experiment:
    """An experiment from its parts. A pool is divided with the experiment's seed."""
    known = [field.name for field in fields(Experiment) if field.name not in ("algorithm", "model", "data")]
    check_names("The experiment", options, known)
    need_parts(algorithm, model, data)
    divided = federate(data, seed=options.get("seed", 0)) if isinstance(data, Pool) else data
    return Experiment(algorithm, model, divided, **options)  # type: ignore[arg-type]  # an int becomes a Batching


def run_stages(experiment: Experiment, executor: Executor, on_event: OnEvent = ignore) -> Result:
    """Run all stages of an experiment; the result is that of the last."""
    weights = experiment.weights
    for stage in experiment.stages:
        setup = Setup.of(experiment, stage, weights)
        result = _run(setup, executor, on_event)
        weights = setup.network_weights(result.state)
    return result


def _run(setup: Setup, executor: Executor, on_event: OnEvent) -> Result:
    states: dict[int, Tensors] = {}
    state: Tensors = {}
    records: list[Record] = []
    traffic: list[Traffic] = []
    left_out: list[LeftOut] = []
    for ended in rounds(setup, executor, states):
        state = ended.state
        records += ended.records
        traffic += ended.traffic
        left_out += ended.left_out
        on_event(ended)
    return Result(setup, state, states, records, traffic, left_out)
