"""What is kept of a client's model? What no other client has; the rest is in memory once."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ..core.task import Task
from ..evaluation.prediction.model import ClientModel, MethodNetwork
from ..serving.separation import Separation, separate
from ..tensors import Tensors

ROWS = 3
TOLERANCE = 1e-4
"""The tolerance, relative to the largest number: in another order, sums differ in their last digits."""

Route = Literal["shared", "head", "part"]
"""A client has nothing of its own, a head that is applied together with others', or some tensors."""


@dataclass(frozen=True, eq=False)
class Own:
    """A client's network, as what differs from the shared one."""

    route: Route
    tensors: Tensors


NOTHING = Own("shared", {})


@dataclass(frozen=True, eq=False)
class Held:
    """A client's model, in parts: its own network, and how much of the global one the guard mixes in.

    Where it cannot be taken apart, it is `whole`, and answers by itself.
    """

    classes: tuple[str, ...]
    about: str
    guarded: bool
    own: Own = NOTHING
    weight: float = 1.0
    """The weight of the client's own network; the rest is the global one's."""
    whole: ClientModel | None = None

    @property
    def bytes(self) -> int:
        tensors = self.own.tensors if self.whole is None else self.whole.state_dict()
        return sum(tensor.nbytes for tensor in tensors.values())


class Shared:
    """A network that clients have in common."""

    def __init__(self, model: ClientModel) -> None:
        self.network = model.network
        self._state = dict(self.network.state_dict())
        self._inputs = model.inputs
        self._example = model.inputs.example(ROWS)
        self._together = not isinstance(self.network, MethodNetwork) and _independent(self.network, self._example)
        self._tried: set[frozenset[str]] = set()
        self.head: frozenset[str] = frozenset()
        self.separation: Separation | None = None
        """The network without the head that clients have of their own, once there is a client with such a head."""

    def own(self, network: nn.Module) -> Own | None:
        """What a client's network has of its own; None if it cannot be taken apart without a doubt."""
        state = network.state_dict()
        if not self._together or type(network) is not type(self.network) or state.keys() != self._state.keys():
            return None
        tensors = {
            name: tensor.detach().clone() for name, tensor in state.items() if not _same(tensor, self._state[name])
        }
        routes: tuple[Route, ...] = ("head", "part") if tensors else ("shared",)
        possible = (Own(route, tensors) for route in routes if self._fits(route, tensors))
        return next((own for own in possible if self._agrees(own, network)), None)

    def _fits(self, route: Route, tensors: Tensors) -> bool:
        if route == "head":
            names = frozenset(tensors)
            if self.separation is None and names not in self._tried:
                self._tried.add(names)
                self.head, self.separation = names, separate(Task(self.network), self._state, names, self._inputs)
            return self.separation is not None and self.head == names
        return all(tensor.shape == self._state[name].shape for name, tensor in tensors.items())

    def _agrees(self, own: Own, network: nn.Module) -> bool:
        one = self._example[:1]
        with torch.no_grad():
            return close(self.outputs(own, one), network(one))

    def outputs(self, own: Own, inputs: Tensor) -> Tensor:
        """What one client's network answers."""
        if own.route == "head" and self.separation:
            return nn.functional.linear(self.separation.features(inputs), *self.separation.head(own.tensors))
        result: Tensor = functional_call(self.network, own.tensors, (inputs,)) if own.tensors else self.network(inputs)
        return result


def held(model: ClientModel, shared: Shared, common: Shared | None) -> Held:
    """A client's model as what differs from the shared network and from the global one."""
    about = model.about
    facts = (model.classes, str(about), model.guarded)
    weight = 1.0 if not model.guarded or about.weight is None else about.weight
    whole = Held(*facts, whole=model)
    if weight < 1:
        mixed_in = model.network if weight == 0 else model.common
        same = common.own(mixed_in) if common and mixed_in else None
        if same is None or same.route != "shared":
            return whole
    if weight == 0:
        return Held(*facts, weight=0.0)
    own = shared.own(model.network)
    return whole if own is None else Held(*facts, own=own, weight=weight)


def held_global(model: ClientModel, common: Shared) -> Held:
    """The global model, as the guard would mix it in, without anything else."""
    same = common.own(model.network)
    facts = (model.classes, str(model.about), False)
    return Held(*facts, weight=0.0) if same and same.route == "shared" else Held(*facts, whole=model)


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)


def close(found: Tensor, wanted: Tensor) -> bool:
    """Whether two answers are the same but for the order of sums."""
    if found.shape != wanted.shape or not found.isfinite().all():
        return False
    return bool((found - wanted).abs().max() <= TOLERANCE * wanted.abs().max())


def _independent(network: nn.Module, example: Tensor) -> bool:
    """Whether a row has the same answer in any company; with a norm by the statistics of a batch, it has not."""
    with torch.no_grad():
        return close(torch.cat([network(row[None]) for row in example]), network(example))
