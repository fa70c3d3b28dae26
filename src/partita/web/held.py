"""What is kept of a client's model? What no other client has; the rest is in memory once."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ..prediction.model import ClientModel, MethodNetwork
from ..tensors import Tensors
from .gathering import Body, body_of

ROWS = 3
TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class Own:
    """A client's network, as what differs from the shared network: nothing, its head, some tensors, or all of it."""

    route: Literal["shared", "head", "part", "whole"]
    tensors: Tensors
    model: ClientModel | None = None
    """Where the network cannot be taken apart."""


@dataclass(frozen=True, eq=False)
class Held:
    """A client's model: its own network, and how much of the global one the guard mixes in."""

    own: Own
    classes: tuple[str, ...]
    about: str
    weight: float = 1.0
    """Of the own network; the rest is the global one's."""

    @property
    def bytes(self) -> int:
        tensors = self.own.tensors if self.own.model is None else self.own.model.state_dict()
        return sum(tensor.nbytes for tensor in tensors.values())


class Shared:
    """A network that clients have in common, and which of them differ from it in what."""

    def __init__(self, model: ClientModel) -> None:
        self.network = model.network
        self._state = dict(self.network.state_dict())
        self._example = model.inputs.example(ROWS)
        self.alone = not _rows_are_independent(self.network, self._example)
        """Whether a row's answer depends on the rows beside it, so that nothing can be answered together."""
        self._bodies: dict[frozenset[str], Body | None] = {}
        self.body: Body | None = None

    def own(self, model: ClientModel) -> Own:
        """What a client's network has of its own. What cannot be taken apart without a doubt stays whole."""
        whole = Own("whole", {}, model)
        if self.alone or isinstance(model.network, MethodNetwork) or type(model.network) is not type(self.network):
            return whole
        state = model.network.state_dict()
        if state.keys() != self._state.keys():
            return whole
        tensors = {name: tensor.detach().clone() for name, tensor in state.items() if not _same(tensor, self._state[name])}
        for route in ("shared", "part") if not tensors else ("head", "part"):
            made = Own(route, tensors)
            if self._possible(made) and self._agrees(made, model.network):
                return made
        return whole

    def _possible(self, own: Own) -> bool:
        if own.route == "head":
            return self._body_for(frozenset(own.tensors)) is not None
        return all(tensor.shape == self._state[name].shape for name, tensor in own.tensors.items())

    def _body_for(self, names: frozenset[str]) -> Body | None:
        """One head is gathered: the first that was found."""
        if self.body is None and names not in self._bodies:
            self.body = self._bodies[names] = body_of(self.network, names, self._example)
        return self._bodies.get(names)

    def _agrees(self, own: Own, network: nn.Module) -> bool:
        with torch.no_grad():
            wanted, found = network(self._example), self.outputs(own, self._example)
            return found.shape == wanted.shape and _close(found, wanted)

    def outputs(self, own: Own, inputs: Tensor) -> Tensor:
        """What one client's network answers."""
        if own.route == "head" and self.body:
            weight, bias = self.body.head_of(own.tensors)
            return torch.nn.functional.linear(self.body.features(inputs), weight, bias)
        result: Tensor = functional_call(self.network, own.tensors, (inputs,)) if own.tensors else self.network(inputs)
        return result


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)


def _close(found: Tensor, wanted: Tensor) -> bool:
    return bool((found - wanted).abs().max() <= TOLERANCE * wanted.abs().max())


def _rows_are_independent(network: nn.Module, example: Tensor) -> bool:
    """A norm by the statistics of a batch, for instance, gives a row another answer in other company."""
    with torch.no_grad():
        together = network(example)
        one_by_one = torch.cat([network(row[None]) for row in example])
    return together.shape == one_by_one.shape and _close(one_by_one, together)
