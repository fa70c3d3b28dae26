"""What does a client hold? Named tensors.

`fc.weight` belongs to the network; `personal/fc.weight` or `flayer/accuracy` are a method's own.
"""

from collections.abc import Collection, Mapping

from torch import Tensor

Tensors = dict[str, Tensor]


def network_name(name: str) -> str:
    """The tensor of the network that a name stands for: `personal/fc.weight` stands for `fc.weight`."""
    return name.rpartition("/")[2]


def only(tensors: Mapping[str, Tensor], names: Collection[str]) -> Tensors:
    """The tensors with these names, in the order of `tensors`: the order of a set differs between processes."""
    return {name: tensor for name, tensor in tensors.items() if name in names}


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> Tensors:
    return {prefix + name: tensor for name, tensor in tensors.items()}


def under(prefix: str, tensors: Mapping[str, Tensor]) -> Tensors:
    """The tensors under a prefix, with the prefix removed: the inverse of `prefixed`."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
