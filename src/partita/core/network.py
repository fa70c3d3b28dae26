"""How is a module built? What a selector may know: tensors, their modules, layers, blocks and groups."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from torch import nn

from ..errors import PartitaError
from ..tensors import Tensors

NORMS: tuple[type[nn.Module], ...] = (
    nn.modules.batchnorm._NormBase,
    nn.GroupNorm,
    nn.LayerNorm,
    *((nn.RMSNorm,) if hasattr(nn, "RMSNorm") else ()),
)
BATCH_NORMS: tuple[type[nn.Module], ...] = (nn.modules.batchnorm._BatchNorm,)

Names = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Network:
    """The structure of a module: tensors by name, in the order in which the module registers them."""

    owners: Mapping[str, nn.Module]
    buffers: frozenset[str]
    counters: frozenset[str]
    frozen: frozenset[str]
    """Parameters that the module itself declares as not trained (`requires_grad` is false)."""
    groups: Mapping[str, Names]
    units: tuple[Names, ...]
    blocks: tuple[Names, ...]
    children: tuple[Names, ...]

    @property
    def names(self) -> Names:
        return tuple(self.owners)

    @cached_property
    def parameters(self) -> Names:
        return tuple(name for name in self.owners if name not in self.buffers)

    @cached_property
    def unit_of(self) -> dict[str, int]:
        """The number of each tensor's layer, from 1 at the input."""
        return {name: number for number, unit in enumerate(self.units, 1) for name in unit}

    @cached_property
    def has_batch_norm(self) -> bool:
        return any(isinstance(owner, BATCH_NORMS) for owner in self.owners.values())

    def of_kind(self, kinds: tuple[type[nn.Module], ...]) -> frozenset[str]:
        return frozenset(name for name, owner in self.owners.items() if isinstance(owner, kinds))


def tensors_of(module: nn.Module) -> Tensors:
    """Parameters and persistent buffers, each once."""
    state = module.state_dict(keep_vars=True)
    parameters = dict(module.named_parameters())
    buffers = {name: buffer for name, buffer in module.named_buffers() if name in state}
    return {name: state[name] for name in state if name in parameters or name in buffers}


def network_of(module: nn.Module, matches: Callable[[str, str], bool], groups: Mapping[str, str | Names]) -> Network:
    """Read a module's structure; `groups` and the module's own `groups` and `blocks` are patterns on tensor names."""
    tensors = tensors_of(module)
    if odd := [name for name in tensors if "/" in name]:
        raise PartitaError(
            f"The network has a tensor called {odd[0]!r}. Names with a slash are for a method's own tensors: rename "
            "the module."
        )
    modules = dict(module.named_modules())
    owners = {name: modules[name.rpartition(".")[0]] for name in tensors}
    buffers = frozenset(name for name, _ in module.named_buffers() if name in tensors)

    def find(patterns: str | Names) -> Names:
        wanted = (patterns,) if isinstance(patterns, str) else patterns
        found = tuple(name for name in tensors if any(matches(pattern, name) for pattern in wanted))
        if not found:
            raise PartitaError(
                f"The pattern {patterns!r} matches no tensor of the network. Its tensors: {', '.join(tensors)}."
            )
        return found

    units = _units(owners)
    own = getattr(module, "groups", None)
    declared = {**(own if isinstance(own, Mapping) else {}), **groups}
    named = {group: find(patterns) for group, patterns in declared.items()}
    if "head" not in named and units:
        named["head"] = units[-1]
    declared_blocks = getattr(module, "blocks", None)
    return Network(
        owners=owners,
        buffers=buffers,
        counters=frozenset(name for name in buffers if not tensors[name].is_floating_point()),
        frozen=frozenset(name for name in owners if name not in buffers and not tensors[name].requires_grad),
        groups=named,
        units=units,
        blocks=tuple(find(block) for block in declared_blocks) if isinstance(declared_blocks, list | tuple) else units,
        children=tuple(
            children
            for child, _ in module.named_children()
            if (children := tuple(name for name in tensors if name.startswith(child + ".")))
        ),
    )


def _units(owners: Mapping[str, nn.Module]) -> tuple[Names, ...]:
    """Modules with own parameters, weight and bias together; a norm belongs to the layer before it."""
    units: list[list[str]] = []
    last: nn.Module | None = None
    for name, owner in owners.items():
        if not units or (owner is not last and not isinstance(owner, NORMS)):
            units.append([])
        units[-1].append(name)
        last = owner
    return tuple(tuple(unit) for unit in units)
