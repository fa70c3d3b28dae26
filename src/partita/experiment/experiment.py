"""What is run? An experiment: a method, a network, data, and the protocol that decides everything else."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypedDict

from torch import nn

from ..core.algorithm import Algorithm, RunPhase, with_server
from ..core.batching import Batching
from ..core.objectives import Loss, Measure
from ..core.server import Server
from ..core.signatures import above, check_fields, named_fields
from ..core.task import Buffers
from ..data.federation import Federation
from ..engine import reference
from ..engine.fast import FastEngine
from ..errors import PartitaError
from ..tensors import Tensors
from .arguments import need_device, need_parts
from .left_out import OnSickClient
from .samplers import Sampler, sampler
from .tasks import Factory

Engine = Literal["fast", "reference"] | RunPhase
"""How a phase is computed: the name of a built-in engine, or a function."""
Participation = float | str | Sequence[Sequence[int]] | Sampler
EVALUATIONS = 10
"""The number of evaluations of a run: enough points for a curve, however many rounds there are."""
ENGINES: Mapping[str, Callable[[], RunPhase]] = {"fast": FastEngine, "reference": lambda: reference.run_phase}


@dataclass(frozen=True)
class Pretraining:
    """Rounds of another algorithm before the experiment, which starts from the resulting network."""

    algorithm: Algorithm
    rounds: int


@dataclass(frozen=True)
class Stage:
    """Rounds of one algorithm."""

    name: str
    algorithm: Algorithm
    rounds: int


@named_fields
@dataclass(frozen=True, eq=False)
class Experiment:
    """Everything that affects a result."""

    algorithm: Algorithm
    model: Factory | nn.Module
    """A factory makes initial weights that depend on the seed alone; a module is taken with the weights it has."""
    data: Federation
    rounds: int = 20
    seed: int = 0
    participation: Participation = 1.0
    """Who takes part in a round: see `samplers`."""
    batching: Batching = Batching()
    server: Server | None = None
    """Replaces the server of algorithms that average."""
    pretrain: Pretraining | None = None
    loss: Loss | None = None
    """The loss to minimise; by default the one that fits the data: cross entropy, or the mean squared error."""
    measure: Measure | None = None
    groups: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    """Names for parts of the network, each with patterns that match names of tensors."""
    weights: Tensors = field(default_factory=dict)
    """Initial weights by name, for instance another result's `network_weights()`."""
    buffers: Buffers = "follow"
    frozen_norm: Literal["train", "eval"] = "train"
    evaluate_every: int | None = None
    """Rounds between evaluations; 0 means after the last round only, None ten times or a little more often."""
    evaluation_batch: int = 512
    evaluation_clients: int = 10_000
    """The largest number of clients to evaluate. If there are more, a fixed sample is evaluated."""
    oracle_validation: bool = False
    """Use test data as validation data, to repeat publications that did. The result is marked."""
    on_sick_client: OnSickClient | None = None
    """What happens when the loss or the update of a client is not finite or too large: the run stops (`stop`, the
    default of a simulation), or the client's round is dropped and the result says so (`leave_out`, the default of a
    federation)."""
    max_update_norm: Annotated[float, above(0)] | None = None
    """The largest norm that the update of a client may have; by default, only the network's precision limits it."""
    engine: Engine = "fast"
    device: str = "cpu"
    """Where clients work: `cpu`, `cuda`, or `cuda:1` for the second such device."""

    def __post_init__(self) -> None:
        need_parts(self.algorithm, self.model, self.data)
        if isinstance(self.batching, int):
            # The size of a batch is often all that is to be said.
            object.__setattr__(self, "batching", Batching(self.batching))
        check_fields(self)
        for name, least in (("rounds", 1), ("evaluate_every", 0), ("evaluation_batch", 1), ("evaluation_clients", 1)):
            if getattr(self, name) is not None and getattr(self, name) < least:
                raise PartitaError(f"{name} is {getattr(self, name)}, but must be at least {least}.")
        need_device(self.device)
        if self.pretrain and self.pretrain.rounds < 1:
            raise PartitaError(f"pretrain.rounds is {self.pretrain.rounds}, but must be at least 1.")
        _ = self.sampler, self.stages

    @property
    def sampler(self) -> Sampler:
        return sampler(self.participation)

    @property
    def stages(self) -> list[Stage]:
        """The stages in order; each starts from the network of the one before."""
        own = Stage("run", self._with_server(), self.rounds)
        return [Stage("pretrain", self.pretrain.algorithm, self.pretrain.rounds), own] if self.pretrain else [own]

    def is_evaluated(self, round: int, stage: Stage) -> bool:
        """Whether clients are evaluated after a round, counted from 1."""
        every = max(stage.rounds // EVALUATIONS, 1) if self.evaluate_every is None else self.evaluate_every
        return round == stage.rounds or (every > 0 and round % every == 0)

    def _with_server(self) -> Algorithm:
        if self.server is None:
            return self.algorithm
        return with_server(self.algorithm, self.server)


class Options(TypedDict, total=False):
    """The fields of `Experiment` besides algorithm, model and data, as typed keyword arguments."""

    rounds: int
    seed: int
    participation: Participation
    batching: Batching | int
    server: Server | None
    pretrain: Pretraining | None
    loss: Loss | None
    measure: Measure | None
    groups: Mapping[str, str | tuple[str, ...]]
    weights: Tensors
    buffers: Buffers
    frozen_norm: Literal["train", "eval"]
    evaluate_every: int | None
    evaluation_batch: int
    evaluation_clients: int
    oracle_validation: bool
    on_sick_client: OnSickClient | None
    max_update_norm: float | None
    engine: Engine
    device: str
