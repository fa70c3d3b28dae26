"""When may a shortcut be used? Only if it knows everything about the case; otherwise the reference is used."""

from collections.abc import Hashable, Mapping
from dataclasses import MISSING, Field, fields
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as torch_module

from ..core.optimizers import SGD
from ..core.schedules import Schedule

_FRESH = vars(nn.Module())
_STRUCTURE = {"training", "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"}
_HOOKS = [name for name in _FRESH if name not in _STRUCTURE and "state_dict" not in name]
"""The attributes that affect calling a module. They are empty unless something was registered."""
_GLOBAL_HOOKS = [
    hooks for name, hooks in vars(torch_module).items() if name.startswith("_global_") and isinstance(hooks, dict)
]

_CONVOLUTION = {
    "in_channels",
    "out_channels",
    "kernel_size",
    "stride",
    "padding",
    "dilation",
    "transposed",
    "output_padding",
    "groups",
    "padding_mode",
    "_reversed_padding_repeated_twice",
}
_POOLING = {"kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"}
_BEFORE_USE = {"__init__", "reset_parameters", *vars(type("Empty", (), {"__annotations__": {}}))}
"""What a class may define without an effect on calling its modules."""

PARAMETERS: tuple[type[Tensor], ...] = (nn.Parameter,)
LAYERS: Mapping[type[nn.Module], set[str]] = {
    nn.Linear: {"in_features", "out_features"},
    nn.Conv1d: _CONVOLUTION,
    nn.Conv2d: _CONVOLUTION,
    nn.BatchNorm2d: {"num_features", "eps", "momentum", "affine", "track_running_stats"},
    nn.ReLU: {"inplace"},
    nn.Flatten: {"start_dim", "end_dim"},
    nn.MaxPool1d: _POOLING,
    nn.MaxPool2d: _POOLING,
    nn.Embedding: {
        "num_embeddings",
        "embedding_dim",
        "padding_idx",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "sparse",
    },
}
"""The layers that shortcuts know, with all attributes that they have besides those of every module."""

STATELESS_SGD = ("lr", "weight_decay", "decayed", "schedule", "rates")
ANY_SGD = (*STATELESS_SGD, "momentum", "nesterov", "clip")
UNDECAYED_SGD = ("lr", "decayed", "schedule", "rates")


def handles(value: object, kind: type[Any], *names: str) -> bool:
    """Whether a value is exactly of this dataclass, and all its fields but these have their defaults.

    A shortcut names the fields that it handles. It refuses a field that is added to the class later, until the
    shortcut is extended.
    """
    return type(value) is kind and all(
        field.name in names or _is_default(field, getattr(value, field.name)) for field in _fields(kind)
    )


def handles_sgd(optimizer: object, *names: str) -> bool:
    """The same of SGD, whose rates are those of the round only with a schedule of the known kind."""
    return handles(optimizer, SGD, *names) and handles(getattr(optimizer, "schedule", None), Schedule, "text", "factor")


def _fields(kind: Any) -> tuple[Field[Any], ...]:
    return fields(kind)


def _is_default(field: Field[Any], value: object) -> bool:
    if field.default_factory is not MISSING:
        return bool(value == field.default_factory())
    return field.default is not MISSING and (value is field.default or bool(value == field.default))


def plain_parameters(module: nn.Module) -> bool:
    """Whether no parameter has a hook on its gradient, or a class with a behaviour of its own."""
    return all(
        type(parameter) in PARAMETERS
        and not parameter._backward_hooks
        and not parameter._post_accumulate_grad_hooks
        and parameter.layout is torch.strided
        for parameter in module.parameters()
    )


def plain_modules(module: nn.Module) -> bool:
    """Whether a forward pass of the module is that of its class, and a backward pass what autograd makes of it."""
    return not any(_GLOBAL_HOOKS) and not _autocast(module) and all(map(_plain, module.modules()))


def kind_of(part: nn.Module) -> type[nn.Module] | None:
    """The known class that a layer is of. A class derived from it may say how weights are drawn, and no more."""
    for kind in type(part).__mro__:
        if kind in LAYERS:
            return kind
        if vars(kind).keys() - _BEFORE_USE:
            return None
    return None


def known_layer(part: nn.Module) -> bool:
    """Whether a module is a layer that shortcuts know, with nothing added to it."""
    kind = kind_of(part)
    return (
        kind is not None
        and vars(part).keys() - _FRESH.keys() == LAYERS[kind]
        and _plain(part)
        and plain_parameters(part)
        and not part._modules
    )


def plain_container(part: nn.Module) -> bool:
    """Whether a module holds nothing but other modules and simple attributes."""
    return _plain(part) and not part._parameters and not part._buffers


def state_of(module: nn.Module) -> Hashable | None:
    """The mode and the attributes of all modules: what a forward pass may depend on beside weights and buffers.

    None if it may depend on an object whose state cannot be seen here.
    """
    try:
        return tuple((part.training, _attributes(part)) for part in module.modules())
    except TypeError:
        return None


def _attributes(part: nn.Module) -> Hashable:
    return tuple((name, _frozen(value)) for name, value in vars(part).items() if name not in _FRESH)


def _frozen(value: object) -> Hashable:
    """A value that is equal as long as nothing in it changes. A TypeError if that is not known."""
    if value is None or isinstance(value, bool | int | float | str | bytes | torch.dtype | torch.device):
        return value
    if isinstance(value, BuiltinFunctionType | type) or (isinstance(value, FunctionType) and not value.__closure__):
        return value
    if isinstance(value, tuple | list):
        return (type(value), *map(_frozen, value))
    if isinstance(value, dict):
        return (type(value), *((_frozen(key), _frozen(each)) for key, each in value.items()))
    raise TypeError(f"an attribute of type {type(value).__name__}")


def _plain(part: nn.Module) -> bool:
    own, kind = vars(part), type(part)
    return (
        kind.__call__ is nn.Module.__call__
        and "parametrizations" not in part._modules
        and not any(map(own.get, _HOOKS))
        # An attribute that hides a method, such as a forward of the module's own.
        and not any(callable(getattr(kind, name, None)) for name in own.keys() - _FRESH.keys())
    )


def _autocast(module: nn.Module) -> bool:
    devices = {"cpu", *(parameter.device.type for parameter in module.parameters())}
    return any(torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device) for device in devices)
