"""Which entries does a FLAYER client send? Those that changed most (equations 5 to 8).

(5)     fraction_i = min(max(i / L, 0.1), 1): layer i of L, from 1 at the input; the last layer is sent whole
(6)     change = |trained - begun|: `after` and `before` of the functions here
(7)     the ceil(fraction_i n) largest changes of n, at least one; of equal ones the first
(8)     a mask that is 1 there and 0 elsewhere

n counts the entries of a tensor, or with `jointly` those of all parameters of the layer. Running statistics have no
mask.
"""

import math
from fractions import Fraction

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


def count_of(size: int, fraction: Fraction) -> int:
    """The fraction of `size` entries, rounded up, at least one: exactly, also where `size` is many millions."""
    return max(1, math.ceil(fraction * size))


def top_fraction(values: Tensor, fraction: Fraction) -> Tensor:
    """True at the largest fraction of the entries."""
    return largest(values, count_of(values.numel(), fraction))


def largest_changes(before: Tensors, after: Tensors, network: Network, *, jointly: bool = False) -> Tensors:
    """FLAYER's masks: of layer i of L the fraction i / L (at least 0.1), in each tensor or in the layer as a whole."""
    masks: Tensors = {}
    names = {name for name in after if network_name(name) not in network.buffers}
    for i, unit in enumerate(network.units, 1):
        fraction = max(Fraction(i, len(network.units)), Fraction(1, 10))
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
    """How many of `size` entries are kept: at least one, and not all; a single entry is dropped."""
    dropped = max(round(size * (1 - fraction)), 1)
    return size - min(dropped, max(size - 1, 1))
