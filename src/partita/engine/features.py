"""What did frozen layers make of a client's samples? Kept from phase to phase, as long as it would be the same."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

MOST = 1 << 25
"""So many numbers are remembered at most."""


class Features:
    """What one frozen part of a network makes of clients' samples, until another part or other weights are asked for.

    A client's samples are known by its number, so it is for one simulation.
    """

    def __init__(self) -> None:
        self._by: list[tuple[nn.Module, bool, list[Tensor]]] = []
        self._of: dict[int, Tensor] = {}
        self._room = MOST

    def remember(self, client: int, layers: Sequence[nn.Module], compute: Callable[[], Tensor]) -> Tensor:
        if not self._still(layers):
            held = [[tensor.detach().clone() for tensor in _held(layer)] for layer in layers]
            self._by = [(layer, layer.training, own) for layer, own in zip(layers, held, strict=True)]
            self._of, self._room = {}, MOST
        if client in self._of:
            return self._of[client]
        features = compute()
        if features.numel() <= self._room:
            self._of[client] = features
            self._room -= features.numel()
        return features

    def _still(self, layers: Sequence[nn.Module]) -> bool:
        return len(layers) == len(self._by) and all(
            layer is known
            and layer.training == mode
            and len(held := _held(layer)) == len(own)
            and all(map(torch.equal, held, own))
            for layer, (known, mode, own) in zip(layers, self._by, strict=True)
        )


def _held(layer: nn.Module) -> list[Tensor]:
    return [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]
