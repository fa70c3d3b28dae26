"""What is added to the loss? A function of the trained tensors, differentiated with it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..tensors import Tensors, network_name
from .client import Client
from .selectors import EVERYTHING, Selector
from .signatures import Strength, check_fields

Penalty = Callable[[Tensors, Client], Tensor]


@dataclass(frozen=True)
class Proximal:
    """strength / 2 times the squared distance of trained tensors to what was received, to their initial value or to 0.

    A trained tensor that was not received (a personal one) is not drawn to what was.
    """

    strength: Strength
    to: Literal["received", "initial", "zero"] = "received"
    on: Selector = EVERYTHING

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(self, trained: Tensors, client: Client) -> Tensor:
        terms = [(trained[name] - center).square().sum() for name, center in self.centers(trained, client).items()]
        return self.strength / 2 * torch.stack(terms).sum() if terms else torch.zeros(())

    def centers(self, trained: Tensors, client: Client) -> Tensors:
        """What each trained tensor is drawn to, if to anything."""
        names = self.on(client.task.network, frozenset(trained))
        found = {name: self._center(name, trained[name], client) for name in trained if name in names}
        return {name: center for name, center in found.items() if center is not None}

    def _center(self, name: str, tensor: Tensor, client: Client) -> Tensor | None:
        if self.to == "zero":
            return torch.zeros_like(tensor)
        centers = client.received if self.to == "received" else client.initial
        return centers.get(name, centers.get(network_name(name)))


def together(*penalties: Penalty | None) -> Penalty | None:
    """The sum of penalties."""
    given = [penalty for penalty in penalties if penalty]
    if len(given) < 2:
        return given[0] if given else None
    return lambda trained, client: torch.stack([penalty(trained, client) for penalty in given]).sum()
