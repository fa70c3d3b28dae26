"""Which network does a client have? The same for all, unless it depends on the client."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from torch import nn

from ..core.task import Task
from ..data.federation import Federation
from ..errors import PartitaError, in_one_line, unknown
from ..randomness import seeded
from ..tensors import Tensors
from .trial import need_module

Factory = Callable[..., nn.Module]


def same_for_all(model: nn.Module | Factory, data: Federation) -> bool:
    """Whether the network cannot depend on the client."""
    if isinstance(model, nn.Module):
        return True
    parameters = inspect.signature(model).parameters
    return "client" not in parameters and not data.label_sets


def facts_for(model: Factory, data: Federation, client: int) -> dict[str, Any]:
    """The facts about the data and the client that a factory takes as arguments."""
    known = {"shape": data.shape, "classes": data.classes_of(client), "client": client, **data.facts}
    parameters = inspect.signature(model).parameters
    bound = model.keywords if isinstance(model, partial) else {}
    wanted = parameters.keys() - bound.keys()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        wanted |= {"shape", "classes"}
    facts = {name: fact for name, fact in known.items() if name in wanted}
    for name, parameter in parameters.items():
        several = parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        optional = parameter.default is not inspect.Parameter.empty or several
        if not optional and name not in facts:
            raise PartitaError(f"The network needs {name}, which {data.name} does not state. Set model.{name}.")
    return facts


@dataclass
class Tasks:
    """A task for every client: the same one, unless the network depends on the client.

    A module keeps the weights it has; a factory makes weights that depend on the seed alone.
    """

    model: nn.Module | Factory
    data: Federation
    seed: int
    weights: Tensors
    make_task: Callable[[nn.Module], Task]
    made: dict[str, Task] = field(default_factory=dict)

    @cached_property
    def same(self) -> bool:
        """Whether all clients have one network."""
        return same_for_all(self.model, self.data)

    def __getitem__(self, client: int) -> Task:
        if self.same and self.made:
            return next(iter(self.made.values()))
        return self.of({} if isinstance(self.model, nn.Module) else facts_for(self.model, self.data, client))

    def of(self, facts: Mapping[str, Any]) -> Task:
        """The task of clients for whom the network's factory gets these facts."""
        key = repr(dict(facts))
        if key not in self.made:
            self.made[key] = self.make_task(
                need_module(self.model if isinstance(self.model, nn.Module) else self._called(facts))
            )
            _replace_weights_(self.made[key], self.weights)
        return self.made[key]

    def _called(self, facts: Mapping[str, Any]) -> object:
        """The network that the factory makes. Its errors are reported with its arguments."""
        assert not isinstance(self.model, nn.Module)
        try:
            with seeded(self.seed, "weights"):
                return self.model(**facts)
        except PartitaError:
            raise
        except Exception as problem:
            given = ", ".join(f"{name}={fact}" for name, fact in facts.items())
            name = getattr(self.model, "__name__", type(self.model).__name__)
            raise PartitaError(
                f"The network cannot be made: {name}({given}) ends in {in_one_line(problem)}"
            ) from problem


def _replace_weights_(task: Task, weights: Tensors) -> None:
    for name, tensor in weights.items():
        if name not in task.weights:
            raise PartitaError(f"weights: {unknown('tensor', name, task.weights)}")
        if (shape := task.weights[name].shape) != tensor.shape:
            raise PartitaError(
                f"weights: {name} has the shape {tuple(tensor.shape)}, but in the network {tuple(shape)}. Give weights "
                "of the same network."
            )
        task.weights[name] = tensor.detach().clone().to(task.device)
