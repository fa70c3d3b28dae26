"""How much travels? Bytes down and up, by the part of the network."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from ..core.client import Client
    from ..core.server import Update


@dataclass(frozen=True)
class Traffic:
    """Bytes of one client in one round, for one group: head, body, or the prefix of a method's own tensors."""

    round: int
    client: int
    group: str
    down: int
    up: int


def traffic(client: "Client", update: "Update") -> list[Traffic]:
    """The bytes that a client received and sent in its round."""
    masks: Mapping[str, Tensor] = update.mask or {}
    down: dict[str, int] = {}
    up: dict[str, int] = {}
    for name, tensor in client.received.items():
        _add_(down, _group(name, client), bytes_on_wire(tensor))
    for name, tensor in update.values.items():
        _add_(up, _group(name, client), bytes_on_wire(tensor, masks.get(name)))
    groups = sorted(down.keys() | up.keys())
    return [Traffic(client.moment.round + 1, client.id, g, down.get(g, 0), up.get(g, 0)) for g in groups]


def bytes_on_wire(tensor: "Tensor", mask: "Tensor | None" = None) -> int:
    """Bytes on the wire. A masked tensor counts its sent entries and one bit for each entry."""
    if mask is None:
        return tensor.numel() * tensor.element_size()
    return int(mask.sum()) * tensor.element_size() + math.ceil(tensor.numel() / 8)


def _group(name: str, client: "Client") -> str:
    prefix = name.partition("/")[0]
    if prefix != name:
        return prefix
    return "head" if name in client.task.network.groups.get("head", ()) else "body"


def _add_(totals: dict[str, int], group: str, count: int) -> None:
    totals[group] = totals.get(group, 0) + count
