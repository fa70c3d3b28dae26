"""What is run? An experiment: algorithm, network, data, and how long; from a TOML file or from options."""

import sys
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ..core.algorithm import Algorithm, RunPhase, with_server
from ..core.batching import Batching
from ..core.server import Server
from ..core.task import Buffers
from ..data.federation import Federation
from ..engine import fast, reference
from ..errors import PartitaError
from ..simulation.jobs import Workshop
from ..simulation.result import Progress, Result
from ..simulation.simulate import Checkpoint, simulate
from ..simulation.tasks import Factory, tasks_for
from ..tensors import Tensors
from .settings import Settings, build

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


OnRound = Callable[[str, Progress], None]
RUNNERS: dict[str, Callable[[], RunPhase]] = {"fast": fast.remembering, "reference": lambda: reference.run_phase}


@dataclass(frozen=True)
class Pretraining:
    """Rounds of another algorithm whose network the experiment then starts from."""

    algorithm: Algorithm
    rounds: int


@dataclass(frozen=True)
class Experiment:
    """Everything that decides a result."""

    algorithm: Algorithm
    model: Factory
    data: Federation
    rounds: int = 20
    seed: int = 0
    participation: float = 1.0
    batching: Batching = Batching()
    server: Server | None = None
    """Replaces the server of algorithms that average."""
    pretrain: Pretraining | None = None
    buffers: Buffers = "follow"
    frozen_norm: Literal["train", "eval"] = "train"
    evaluate_every: int = 10
    evaluation_batch: int = 512
    evaluation_clients: int = 10_000
    oracle_validation: bool = False
    runner: Literal["fast", "reference"] = "fast"
    device: str = "cpu"

    @property
    def stages(self) -> list["Stage"]:
        """What is run one after another, each from the network of the one before."""
        own = Stage("run", self._with_server(), self.rounds)
        return [Stage("pretrain", self.pretrain.algorithm, self.pretrain.rounds), own] if self.pretrain else [own]

    def run(self, on_round: OnRound | None = None, workers: int | None = None) -> Result:
        """Run all stages; `on_round` is told the stage and the progress."""
        weights: Tensors = {}
        for stage in self.stages:
            result = self.simulate(stage, weights, on_round, workers=workers)
            weights = result.network_weights()
        return result

    def simulate(
        self,
        stage: "Stage",
        weights: Tensors,
        on_round: OnRound | None = None,
        start: Checkpoint | None = None,
        own: MutableMapping[int, Tensors] | None = None,
        workers: int | None = None,
    ) -> Result:
        """Run one stage, perhaps from where it was before."""
        return simulate(
            stage.algorithm,
            self.model,
            self.data,
            rounds=stage.rounds,
            seed=self.seed,
            participation=self.participation,
            batching=self.batching,
            buffers=self.buffers,
            frozen_norm=self.frozen_norm,
            weights=weights,
            evaluate_every=self.evaluate_every,
            evaluation_batch=self.evaluation_batch,
            evaluation_clients=self.evaluation_clients,
            oracle_validation=self.oracle_validation,
            on_round=partial(on_round, stage.name) if on_round else None,
            start=start,
            own=own,
            run_phase=RUNNERS[self.runner](),
            workers=workers,
            device=self.device,
        )

    def workshop(self, stage: "Stage", weights: Tensors) -> Workshop:
        """What it takes to work on clients as a stage does."""
        tasks = tasks_for(
            self.model,
            self.data,
            self.seed,
            weights=weights,
            buffers=self.buffers,
            frozen_norm=self.frozen_norm,
            device=self.device,
        )
        return Workshop(
            stage.algorithm,
            tasks,
            self.data,
            stage.rounds,
            self.seed,
            self.batching,
            self.evaluation_batch,
            self.oracle_validation,
            RUNNERS[self.runner](),
        )

    def _with_server(self) -> Algorithm:
        if self.server is None:
            return self.algorithm
        return with_server(self.algorithm, self.server)


@dataclass(frozen=True)
class Stage:
    name: str
    algorithm: Algorithm
    rounds: int


DEFAULTS: Settings = {"algorithm": "fedper", "model": "mlp", "data": "digits"}


def read(path: Path | None, overrides: Iterable[str] = ()) -> dict[str, Any]:
    """Settings of a TOML file (or the defaults), changed by `dotted.key=value`."""
    settings: dict[str, Any] = dict(DEFAULTS)
    if path is not None:
        try:
            given = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as problem:
            raise PartitaError(f"Cannot read {path}: {problem.strerror}.") from problem
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
            raise PartitaError(f"{path} is not valid TOML: {problem}.") from problem
        for key, value in given.items():
            # Settings without a name change the default.
            named = isinstance(value, dict) and "name" not in value and key in DEFAULTS
            settings[key] = {"name": DEFAULTS[key], **value} if named else value
    for override in overrides:
        _override_(settings, override)
    return settings


def make(settings: Mapping[str, object]) -> Experiment:
    """The experiment that settings describe."""
    experiment: Experiment = build(Experiment, {**settings, "data": data_of(settings)})
    return experiment


def data_of(settings: Mapping[str, object]) -> object:
    """What settings say of data. Unless told otherwise, they are split by the experiment's seed."""
    data = settings.get("data")
    if isinstance(data, str):
        data = {"name": data}
    return {"seed": settings.get("seed", 0), **data} if isinstance(data, Mapping) else data


def _override_(settings: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise PartitaError(f"{override!r} is not of the form key=value, as in rounds=10 or algorithm.optimizer.lr=0.1.")
    *path, last = key.split(".")
    inner = settings
    for part in path:
        value = inner.get(part, {})
        if not isinstance(value, str | Mapping):
            raise PartitaError(f"{override!r}: {part} is {value!r}, which has no settings of its own.")
        # A name alone stands for a thing with default settings.
        inner[part] = {"name": value} if isinstance(value, str) else dict(value)
        inner = inner[part]
    inner[last] = _value(text)


def _value(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
