"""What is run? An experiment: algorithm, network, data, and how long; from a TOML file or from options."""

import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from .algorithm import Algorithm
from .batching import Batching
from .errors import PartitaError
from .federation import Federation
from .server import Averaging
from .settings import Factory, Settings, build
from .simulation import Progress, Result, simulate
from .task import Buffers

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


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
    server: Averaging | None = None
    """Replaces the server of algorithms that average."""
    pretrain: Pretraining | None = None
    buffers: Buffers = "follow"
    frozen_norm: Literal["train", "eval"] = "train"
    evaluate_every: int = 10
    evaluation_batch: int = 512
    oracle_validation: bool = False

    def run(self, on_round: Callable[[str, Progress], None] | None = None) -> Result:
        """Pre-train if asked for, then run; `on_round` is told the stage and the progress."""
        algorithm, weights = self._with_server(), None
        if self.pretrain:
            first = self._simulate("pretrain", self.pretrain.algorithm, self.pretrain.rounds, None, on_round)
            weights = first.network_weights()
        return self._simulate("run", algorithm, self.rounds, weights, on_round)

    def _with_server(self) -> Algorithm:
        if self.server is None:
            return self.algorithm
        if not isinstance(self.algorithm.server, Averaging):
            raise PartitaError(f"{self.algorithm.label} has its own server, which cannot be replaced.")
        return replace(self.algorithm, server=self.server)

    def _simulate(
        self,
        stage: str,
        algorithm: Algorithm,
        rounds: int,
        weights: Any,
        on_round: Callable[[str, Progress], None] | None,
    ) -> Result:
        return simulate(
            algorithm,
            self.model,
            self.data,
            rounds=rounds,
            seed=self.seed,
            participation=self.participation,
            batching=self.batching,
            buffers=self.buffers,
            frozen_norm=self.frozen_norm,
            weights=weights,
            evaluate_every=self.evaluate_every,
            evaluation_batch=self.evaluation_batch,
            oracle_validation=self.oracle_validation,
            on_round=(lambda progress: on_round(stage, progress)) if on_round else None,
        )


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
    """The experiment that settings describe. Unless told otherwise, data are split by the experiment's seed."""
    data = settings.get("data")
    seed = settings.get("seed", 0)
    if isinstance(data, str):
        data = {"name": data}
    if isinstance(data, Mapping):
        data = {"seed": seed, **data}
    experiment: Experiment = build(Experiment, {**settings, "data": data})
    return experiment


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
