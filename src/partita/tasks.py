"""Which network has a client? One and the same for all, unless it depends on the client."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from torch import nn

from .errors import PartitaError
from .federation import Federation
from .randomness import seeded
from .task import Task
from .tensors import Tensors

Factory = Callable[..., nn.Module]


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

    def __getitem__(self, client: int) -> Task:
        facts = {} if isinstance(self.model, nn.Module) else facts_for(self.model, self.data, client)
        key = repr(facts)
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
        task.weights[name] = tensor.detach().clone()
