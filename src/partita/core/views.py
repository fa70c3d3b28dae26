"""How do a client's tensors form the weights of the network? Usually they are the weights."""

from collections.abc import Callable
from dataclasses import dataclass

from ..tensors import Tensors, under
from .network import Network
from .selectors import Selector, below


@dataclass(frozen=True)
class View:
    """`weights` makes the network's weights; `place` says which tensors stand for a part of the network.

    A view passes running statistics unchanged, never as a mixture, because training updates them in place.
    """

    text: str
    weights: Callable[[Tensors, Network], Tensors]
    place: Callable[[Selector], Selector]
    direct: bool = False
    """Whether each weight of the network is one of the tensors."""

    def sources(self, tensors: Tensors, network: Network) -> dict[str, str]:
        """The name of the tensor that is a weight of the network unchanged, for each such weight."""
        # New objects stand in for the tensors, because one tensor may have several names.
        stand_ins = {name: tensor.view_as(tensor) for name, tensor in tensors.items()}
        known = {id(tensor): name for name, tensor in stand_ins.items()}
        weights = self.weights(stand_ins, network)
        return {name: known[id(weight)] for name, weight in weights.items() if id(weight) in known}


PLAIN = View(
    "plain",
    weights=lambda tensors, network: {name: tensor for name, tensor in tensors.items() if "/" not in name},
    place=lambda selector: selector,
    direct=True,
)


def copy(prefix: str) -> View:
    """A second set of weights beside the network's, under a prefix."""
    return View(
        f"copy {prefix}",
        weights=lambda tensors, network: under(prefix, tensors),
        place=lambda selector: below(prefix, selector),
        direct=True,
    )
