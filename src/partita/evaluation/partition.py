"""What does an algorithm do to a network? Shared, personal and frozen tensors, phases and cost."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, is_dataclass
from types import FunctionType
from typing import Any

from torch import Tensor

from ..core.algorithm import Algorithm, kept_names, shared_names
from ..core.batching import Batching
from ..core.client import Client
from ..core.gradients import PLAIN_GRADIENT
from ..core.phases import Phase, Stage
from ..core.samples import Samples
from ..core.task import Task
from ..core.views import PLAIN
from ..engine.shortcuts import obstacle
from ..registry import summary


@dataclass(frozen=True)
class HeldTensor:
    """One tensor that a client holds."""

    name: str
    shape: tuple[int, ...]
    parameters: int
    shared: bool
    kept: bool
    trained_in: tuple[int, ...]
    """Numbers of the phases that train it, from 1."""


@dataclass(frozen=True)
class Partition:
    """What an algorithm makes of a network."""

    algorithm: str
    stages: tuple[str, ...]
    finetune: tuple[str, ...]
    rows: tuple[HeldTensor, ...]
    parameters: int
    shared: int
    personal: int
    frozen: int
    bytes_down: int
    bytes_up: int
    """At most: masks send less."""
    sees_single_models: bool

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def client_without_data(task: Task) -> Client:
    """A client of this task before its first round."""
    nothing = Samples(_empty(task), _empty(task))
    return Client(0, task, nothing, nothing, batching=Batching())


def partition(algorithm: Algorithm, task: Task) -> Partition:
    """Resolve an algorithm against a network."""
    tensors = algorithm.expand(client_without_data(task))
    names = frozenset(tensors)
    shared = shared_names(algorithm, task, names)
    kept = kept_names(algorithm, task, names)
    trained = [
        stage.trained(task.network, names) if isinstance(stage, Phase) else frozenset() for stage in algorithm.phases
    ]
    rows = tuple(
        HeldTensor(
            name=name,
            shape=tuple(tensor.shape),
            parameters=tensor.numel(),
            shared=name in shared,
            kept=name in kept,
            trained_in=tuple(number for number, chosen in enumerate(trained, 1) if name in chosen),
        )
        for name, tensor in tensors.items()
    )
    network = [row for row in rows if row.name in task.network.parameters]
    exchanged = sum(tensors[name].nbytes for name in shared)
    return Partition(
        algorithm=algorithm.label,
        stages=tuple(_text(stage) for stage in algorithm.phases),
        finetune=tuple(_text(stage) for stage in algorithm.finetune),
        rows=rows,
        parameters=_count(network),
        shared=_count(row for row in network if row.shared),
        personal=_count(row for row in network if not row.shared and row.trained_in),
        frozen=_count(row for row in network if not row.trained_in),
        bytes_down=exchanged,
        bytes_up=exchanged,
        sees_single_models=algorithm.sees_single_models,
    )


def _text(stage: Stage) -> str:
    if not isinstance(stage, Phase):
        return summary(stage)
    length = []
    if stage.epochs is not None or stage.steps is None:
        length.append(_amount("some" if callable(stage.epochs) else stage.epochs or 1, "epoch"))
    if stage.steps is not None:
        length.append(("at most " if length else "") + _amount(stage.steps, "step"))
    extras = [f"penalty {type(stage.penalty).__name__}"] if stage.penalty else []
    extras += [f"gradient {type(stage.gradient).__name__}"] if stage.gradient != PLAIN_GRADIENT else []
    extras += [f"weights: {stage.view.text}"] if stage.view != PLAIN else []
    # What the fast engine leaves to the reference takes longer.
    extras += [f"functional, for {reason}"] if (reason := obstacle(stage)) else []
    parts = [f"train {stage.train}", ", ".join(length), _optimizer(stage), *extras]
    return "; ".join(parts)


def _optimizer(stage: Phase) -> str:
    """The whole of it: what is not said is off, or the default."""
    optimizer: Any = stage.optimizer
    return ", ".join([f"{type(optimizer).__name__} with rate {optimizer.lr:g}", *_set_fields(optimizer)])


def _set_fields(optimizer: Any) -> Iterator[str]:
    """The settings that are not a default, also those of an optimizer that it changes."""
    for each in fields(optimizer) if is_dataclass(optimizer) else ():
        value: Any = getattr(optimizer, each.name)
        if is_dataclass(value) and hasattr(value, "lr"):
            yield from _set_fields(value)
        elif each.name != "lr" and value != each.default:
            yield f"{each.name.replace('_', ' ')} {_said(value)}"


def _said(value: object) -> str:
    if isinstance(value, tuple):
        return " and ".join(map(_said, value))
    if isinstance(value, FunctionType):
        # Its text would hold its place in memory, which is another in every process.
        return value.__qualname__.partition(".")[0]
    return f"{value:g}" if isinstance(value, float) else str(value)


def _amount(count: int | str, unit: str) -> str:
    return f"{count} {unit}" if count == 1 else f"{count} {unit}s"


def _count(rows: Iterable[HeldTensor]) -> int:
    return sum(row.parameters for row in rows)


def _empty(task: Task) -> Tensor:
    return next(iter(task.weights.values())).new_zeros(0)
