"""Which entries are sent? Those that changed most."""

import math

import torch
from torch import Tensor

from ..core.network import Network
from ..tensors import Tensors, network_name


def largest(values: Tensor, count: int) -> Tensor:
    """True at the `count` largest entries; of equal ones the first."""
    order = torch.argsort(values.flatten(), descending=True, stable=True)
    mask = torch.zeros(values.numel(), dtype=torch.bool, device=values.device)
    mask[order[:count]] = True
    return mask.reshape(values.shape)


def top_fraction(values: Tensor, fraction: float) -> Tensor:
    """True at the largest fraction of the entries, rounded up, at least one."""
    # A fraction such as 3/4 * 100 must not become 76 by a rounding error.
    return largest(values, max(1, math.ceil(fraction * values.numel() - 1e-9)))


def largest_changes(before: Tensors, after: Tensors, network: Network, *, jointly: bool = False) -> Tensors:
    """FLAYER's masks: of layer i of L the fraction i / L (at least 0.1), in each tensor or in the layer as a whole."""
    masks: Tensors = {}
    names = {name for name in after if network_name(name) not in network.buffers}
    for i, unit in enumerate(network.units, 1):
        fraction = min(max(i / len(network.units), 0.1), 1.0)
        changes = {
            name: (after[name] - before[name]).abs() for name in after if name in names and network_name(name) in unit
        }
        if jointly and changes:
            mask = top_fraction(torch.cat([change.flatten() for change in changes.values()]), fraction)
            parts = torch.split(mask, [change.numel() for change in changes.values()])
            masks |= {n: part.reshape(changes[n].shape) for n, part in zip(changes, parts, strict=True)}
        else:
            masks |= {name: top_fraction(change, fraction) for name, change in changes.items()}
    return masks


def official_changes(before: Tensors, after: Tensors, network: Network) -> Tensors:
    """What FLAYER's published code sends: kernels and vectors are pruned, matrices and the last two tensors never."""
    masks: Tensors = {}
    position = {name: at for at, name in enumerate(network.parameters)}
    for name, value in after.items():
        at = position.get(network_name(name))
        if at is None or at >= len(position) - 2 or value.ndim == 2:
            continue
        change = (value - before[name]).abs()
        fraction = min(max(at / len(position), 0.1), 0.9)
        rows = change.reshape(-1, change[0, 0].numel()) if value.ndim == 4 else change.reshape(1, -1)
        count = official_count(rows.shape[1], fraction)
        masks[name] = torch.stack([largest(row, count) for row in rows]).reshape(value.shape)
    return masks


def official_count(size: int, fraction: float) -> int:
    """Of `size` entries at least one is dropped; one is kept, except of a single one."""
    dropped = max(round(size * (1 - fraction)), 1)
    return size - min(dropped, max(size - 1, 1))
