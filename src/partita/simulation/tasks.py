"""Which network has a client? One and the same for all, unless it depends on the client."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from torch import nn

from ..core.task import Task
from ..data.federation import Federation
from ..errors import PartitaError
from ..randomness import seeded
from ..tensors import Tensors

Factory = Callable[..., nn.Module]


def same_for_all(model: nn.Module | Factory, data: Federation) -> bool:
    """Whether the network cannot depend on the client, so that nobody needs to be asked."""
    if isinstance(model, nn.Module):
        return True
    parameters = inspect.signature(model).parameters
    return "client" not in parameters and not data.label_sets


def facts_for(model: Factory, data: Federation, client: int) -> dict[str, Any]:
    """What a factory asks for of what the data and the client say."""
    known = {"shape": data.shape, "classes": data.classes_of(client), "client": client, **data.facts}
    parameters = inspect.signature(model).parameters
    bound = model.keywords if isinstance(model, partial) else {}
    wanted = parameters.keys() - bound.keys()
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        wanted |= {"shape", "classes"}
    facts = {name: fact for name, fact in known.items() if name in wanted}
    for name, parameter in parameters.items():
        optional = parameter.default is not inspect.Parameter.empty or parameter.kind is inspect.Parameter.VAR_KEYWORD
        if not optional and name not in facts:
            raise PartitaError(f"The network needs {name}, which {data.name} does not say. Set model.{name}.")
    return facts


@dataclass
class Tasks:
    """A task for every client: one and the same, unless the network depends on the client.

    A module is taken as it is; a factory makes weights that depend on the seed alone.
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
        """The task of clients of whom the network's factory is told these facts."""
        key = repr(dict(facts))
        if key not in self.made:
            if isinstance(self.model, nn.Module):
                module = self.model
            else:
                with seeded(self.seed, "weights"):
                    module = self.model(**facts)
            self.made[key] = self.make_task(module)
            _replace_weights_(self.made[key], self.weights)
        return self.made[key]


def _replace_weights_(task: Task, weights: Tensors) -> None:
    for name, tensor in weights.items():
        if name not in task.weights or task.weights[name].shape != tensor.shape:
            raise PartitaError(f"Given weights do not fit the network: {name} of shape {tuple(tensor.shape)}.")
        task.weights[name] = tensor.detach().clone().to(task.device)
