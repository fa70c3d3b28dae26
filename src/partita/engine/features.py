"""When are the outputs of frozen layers kept? If another phase is likely to need them again."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

MOST = 1 << 25
"""The largest number of values that are kept."""


class Features:
    """The features that one body (the frozen layers of a network, with their weights) makes of clients' samples.

    Another body replaces them. Whether they are needed again before that depends on the method: in FedRep, fine-tuning
    after a round uses the body that the next round starts with, while a fine-tuned FedAvg never uses a body twice. So
    requests are recorded by purpose, and features are kept only for a purpose for which a client has requested
    features of the previous body again.

    A client's samples are known by its number, so this is for one simulation.
    """

    def __init__(self) -> None:
        self._body: list[tuple[nn.Module, bool, list[Tensor]]] = []
        self._kept: dict[int, Tensor] = {}
        self._computed_for: dict[int, str] = {}
        self._asked_again: set[str] = set()
        self._useful: set[str] = set()
        self._room = MOST

    def remember(self, client: int, purpose: str, layers: Sequence[nn.Module], compute: Callable[[], Tensor]) -> Tensor:
        """The features of a client's samples by these layers, as they were kept or computed."""
        if not self._same_body(layers):
            self._begin(layers)
        if client in self._computed_for:
            self._asked_again.add(self._computed_for[client])
        if client in self._kept:
            return self._kept[client]
        features = compute()
        self._computed_for[client] = purpose
        if purpose in self._useful | self._asked_again and features.numel() <= self._room:
            self._kept[client] = features
            self._room -= features.numel()
        return features

    @property
    def size(self) -> int:
        """How many numbers are kept."""
        return sum(features.numel() for features in self._kept.values())

    def _begin(self, layers: Sequence[nn.Module]) -> None:
        self._useful = (self._useful - set(self._computed_for.values())) | self._asked_again
        held = [[tensor.detach().clone() for tensor in _held(layer)] for layer in layers]
        self._body = [(layer, layer.training, own) for layer, own in zip(layers, held, strict=True)]
        self._kept, self._computed_for, self._asked_again, self._room = {}, {}, set(), MOST

    def _same_body(self, layers: Sequence[nn.Module]) -> bool:
        return len(layers) == len(self._body) and all(
            layer is known
            and layer.training == mode
            and len(held := _held(layer)) == len(own)
            and all(map(torch.equal, held, own))
            for layer, (known, mode, own) in zip(layers, self._body, strict=True)
        )


def _held(layer: nn.Module) -> list[Tensor]:
    return [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]
