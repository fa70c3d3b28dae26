"""How does a network get adapters? Small layers with a skip, beside weights that keep their names."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from fnmatch import fnmatchcase
from typing import Literal

import torch
from torch import Tensor, nn

from ..core.network import Names, Network, network_of, tensors_of
from ..core.selectors import Selector, matches
from ..core.signatures import Width, checked
from ..errors import PartitaError

Kind = Literal["bottleneck", "conv"]


class SmallLinear(nn.Linear):
    """Initial weights from N(0, 0.01^2) and no bias, also where a client draws its own."""

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=0.01)
        nn.init.zeros_(self.bias)


class SmallConvolution(nn.Conv2d):
    """Initial weights from N(0, 0.0001^2), also where a client draws its own."""

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=1e-4)


class Bottleneck(nn.Module):
    """Down to a few features, up again, plus the input. Houlsby et al., 2019."""

    def __init__(self, features: int, width: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.down = SmallLinear(features, width)
        self.relu = nn.ReLU()
        self.up = SmallLinear(width, features)

    def forward(self, inputs: Tensor) -> Tensor:
        answer: Tensor = inputs + self.up(self.relu(self.down(self.dropout(inputs))))
        return answer


class ConvAdapter(nn.Module):
    """A 1 x 1 convolution, after a group norm if there are groups, plus the input. Rebuffi et al., 2017."""

    def __init__(self, channels: int, *, groups: int = 0, double_skip: bool = False) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels) if groups else nn.Identity()
        self.conv = SmallConvolution(channels, channels, kernel_size=1, bias=False)
        self.skips = 2 if double_skip else 1

    def forward(self, inputs: Tensor) -> Tensor:
        # A 1 x 1 convolution is blind to places: seen as one column, sequences and volumes pass as images do.
        column: Tensor = self.conv(self.norm(inputs).flatten(2).unsqueeze(3))
        return torch.add(column.reshape(inputs.shape), inputs, alpha=self.skips)


@checked
def with_adapters(
    module: nn.Module,
    at: Selector | str | tuple[str, ...],
    *,
    kind: Kind | None = None,
    width: Width = 16,
    features: Width | None = None,
) -> nn.Module:
    """A copy with an adapter on the output of each chosen submodule; all other tensors keep their names.

    >>> from partita.models.mlp import mlp
    >>> network = with_adapters(mlp(shape=(64,), classes=10), "layer*", width=4)
    >>> [name for name, _ in network.named_parameters() if "adapter" in name]
    ['layer1.adapter.down.weight', 'layer1.adapter.down.bias', 'layer1.adapter.up.weight', 'layer1.adapter.up.bias']

    `at` is a selector (the modules that own its tensors) or patterns on names of modules, in which a star stands for
    one part of a name: `layer*.*` are the blocks of a ResNet. A chosen submodule must be called as a module, and its
    output, or the first of several, is adapted. The kind of adapter and the size of that output are those of the
    submodule's last layer, unless given. The adapters are the group `adapter`, and belong to the block before them.
    Where a module uses the name `groups` for something else, it keeps it; then `where("*.adapter")` finds them.
    """
    adapted = deepcopy(module)
    network = network_of(adapted, matches, {})
    sites = _sites(adapted, network, at)
    for site in sites:
        _attach_(adapted.get_submodule(site), site, kind, width, features)
    groups = getattr(module, "groups", {})
    if isinstance(groups, Mapping):
        before = groups.get("adapter", ())
        adapters = (*((before,) if isinstance(before, str) else before), *(f"{site}.adapter" for site in sites))
        vars(adapted)["groups"] = {"head": network.groups["head"], **groups, "adapter": adapters}
    if isinstance(getattr(module, "blocks", ()), tuple | list):
        vars(adapted)["blocks"] = _blocks(network, tensors_of(adapted))
    return adapted


def _sites(module: nn.Module, network: Network, at: Selector | str | tuple[str, ...]) -> Names:
    """The names of the chosen submodules, in the order of the module."""
    if isinstance(at, Selector):
        chosen = at(network, frozenset(network.names))
        return tuple(dict.fromkeys(name.rpartition(".")[0] for name in network.names if name in chosen))
    names = [name for name, _ in module.named_modules() if name]
    found: set[str] = set()
    for pattern in (at,) if isinstance(at, str) else at:
        matched = {name for name in names if _matches_parts(pattern, name)}
        if not matched:
            raise PartitaError(
                f"The pattern {pattern!r} matches no module of the network. Its modules: {', '.join(names)}."
            )
        found |= matched
    return tuple(name for name in names if name in found)


def _matches_parts(pattern: str, name: str) -> bool:
    patterns, parts = pattern.split("."), name.split(".")
    return len(patterns) == len(parts) and all(map(fnmatchcase, parts, patterns))


def _attach_(host: nn.Module, name: str, kind: Kind | None, width: int, features: int | None) -> None:
    """Give a module an adapter of its own type of numbers."""
    if not name or isinstance(host, nn.ModuleList | nn.ModuleDict) or hasattr(host, "adapter"):
        raise PartitaError(
            f"{name or 'The whole network'} ({type(host).__name__}) cannot get an adapter: choose submodules that are "
            "called, and that have none yet."
        )
    known_kind, known_features = next(_outputs(host), (None, None))
    kind, features = kind or known_kind, features or known_features
    if kind is None or features is None:
        raise PartitaError(
            f"The output of {name} ({type(host).__name__}) is not known from its layers. Set features, and kind to "
            "'bottleneck' (the features are the last dimension) or 'conv' (the second)."
        )
    adapter = Bottleneck(features, width) if kind == "bottleneck" else ConvAdapter(features)
    if (like := next(host.parameters(), None)) is not None:
        adapter.to(like)
    host.add_module("adapter", adapter.train(host.training))
    # A sequence calls its last child by itself.
    if type(host).forward is not nn.Sequential.forward:
        host.register_forward_hook(_adapt)


def _adapt(module: nn.Module, arguments: object, output: Tensor | tuple[Tensor, ...]) -> object:
    """A hook that holds no module: it finds the adapter of whichever copy it is called for."""
    adapter = module.get_submodule("adapter")
    return (adapter(output[0]), *output[1:]) if isinstance(output, tuple) else adapter(output)


def _outputs(module: nn.Module) -> Iterator[tuple[Kind, int]]:
    """Kinds and sizes of the outputs of a module's layers, from the last."""
    for part in reversed(list(module.modules())):
        match part:
            case nn.modules.conv._ConvNd():
                yield "conv", part.out_channels
            case nn.BatchNorm2d() | nn.BatchNorm3d():
                yield "conv", part.num_features
            case nn.GroupNorm():
                yield "conv", part.num_channels
            case nn.Linear():
                yield "bottleneck", part.out_features
            case nn.Embedding():
                yield "bottleneck", part.embedding_dim
            case nn.LayerNorm() | nn.RMSNorm():
                yield "bottleneck", part.normalized_shape[-1]


def _blocks(network: Network, tensors: Mapping[str, Tensor]) -> tuple[Names, ...]:
    """The blocks as they were, each with the adapters that come after its tensors."""
    home = {name: number for number, block in enumerate(network.blocks) for name in block}
    blocks: list[list[str]] = [[] for _ in network.blocks]
    number = 0
    for name in tensors:
        if name in home or name not in network.owners:
            number = home.get(name, number)
            blocks[number].append(name)
    return tuple(map(tuple, blocks))
