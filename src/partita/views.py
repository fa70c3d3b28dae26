"""How do a client's tensors make the weights of the network? Mostly they are the weights."""

from collections.abc import Callable
from dataclasses import dataclass

from .network import Network
from .selectors import Selector, below
from .tensors import Tensors, under


@dataclass(frozen=True)
class View:
    """`weights` makes the network's weights; `place` says which tensors stand for a part of the network.

    A view hands running statistics on as they are, never as a mixture: training updates them in place.
    """

    text: str
    weights: Callable[[Tensors, Network], Tensors]
    place: Callable[[Selector], Selector]


PLAIN = View(
    "plain",
    weights=lambda tensors, network: {name: tensor for name, tensor in tensors.items() if "/" not in name},
    place=lambda selector: selector,
)


def copy(prefix: str) -> View:
    """A second set of weights beside the network's, under a prefix."""
    return View(
        f"copy {prefix}",
        weights=lambda tensors, network: under(prefix, tensors),
        place=lambda selector: below(prefix, selector),
    )
