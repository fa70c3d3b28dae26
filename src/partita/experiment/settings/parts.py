"""What does an object consist of? Code, values, and other objects."""

import copyreg
import dataclasses
import enum
import functools
import inspect
import types
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .code import class_code, code_text, compiled, function_code, is_library, library_name, module_name


class Value(bytes):
    """A part of the values."""


Parts = Iterator[object]
Key = Callable[[object], str]
"""A sort key that gives the same order in every process."""


def parts_of(thing: Any, key: Key) -> Parts:
    """The parts that define an object's behaviour; unordered collections are sorted by the key."""
    if type(thing) in (dict, types.MappingProxyType):
        return _mapping(thing, sorted(thing, key=lambda each: plain_text(each) or key(each)))
    if type(thing) in (set, frozenset):
        return _sequence(sorted(map(key, thing)))
    for kinds, take_apart in _KINDS:
        if isinstance(thing, kinds):
            return take_apart(thing)
    return _object(thing)


def plain_text(thing: object) -> str | None:
    """A plain value as bytes, in which 1 and 1.0 are the same; None for other objects."""
    if type(thing) in (bool, str, bytes, complex, type(None), type(...), type(NotImplemented)):
        return f"{type(thing).__name__}:{thing!r}"
    if type(thing) is float and thing.is_integer():
        thing = int(thing)
    return f"number:{thing!r}" if type(thing) in (int, float) else None


def _value(text: str) -> Value:
    return Value(text.encode())


def _tensor(tensor: Tensor) -> Parts:
    yield _value(f"{tensor.dtype}:{tuple(tensor.shape)}:{tensor.requires_grad}")
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    yield Value(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    yield list((tensor._backward_hooks or {}).values())


def _array(array: "np.ndarray[Any, Any] | np.generic") -> Parts:
    values = np.ascontiguousarray(array)
    yield _value(f"array:{values.dtype}:{np.shape(array)}")
    yield values.tolist() if values.dtype.hasobject else Value(values.tobytes())


def _network(module: nn.Module) -> Parts:
    """Layers and parameters in order, and hooks without their registration numbers."""
    yield type(module)
    for name, value in sorted((_attributes(module) or {}).items()):
        if name == "training":
            continue
        yield _value(name)
        if name in ("_parameters", "_buffers", "_modules"):
            yield list(value.items())
        else:
            yield list(value.values()) if "_hooks" in name and isinstance(value, Mapping) else value


def _mapping(items: Mapping[Any, object], keys: Sequence[Any]) -> Parts:
    yield _value(f"mapping:{len(items)}")
    for key in keys:
        yield key
        yield items[key]


def _sequence(items: Sequence[object]) -> Parts:
    yield _value(f"{type(items).__name__}:{len(items)}")
    yield from items


def _partial(made: "functools.partial[object]") -> Parts:
    yield _value("partial")
    yield from (made.func, made.args, made.keywords)


def _method(method: types.MethodType) -> Parts:
    yield _value("method")
    yield from (method.__self__, method.__func__)


def _builtin(function: Any) -> Parts:
    yield code_text(f"builtin:{function.__qualname__}")
    owner = getattr(function, "__self__", None)
    yield owner.__name__ if isinstance(owner, types.ModuleType) else owner


def _descriptor(descriptor: Any) -> Parts:
    yield code_text(f"{type(descriptor).__name__}:{descriptor.__name__}")


def _wrapper(wrapper: Any) -> Parts:
    yield code_text(type(wrapper).__name__)
    for name in ("__func__", "func", "fget", "fset", "fdel", "__wrapped__"):
        yield getattr(wrapper, name, None)


def _function(function: types.FunctionType) -> Parts:
    yield from function_code(function)
    yield from (function.__defaults__, function.__kwdefaults__, vars(function))
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            yield _value("an empty cell")


def _module(module: types.ModuleType) -> Parts:
    yield code_text(f"module:{module_name(module.__name__)}")


def _text(thing: object) -> Parts:
    yield _value(f"{type(thing).__name__}:{thing!r}")


def _member(member: enum.Enum) -> Parts:
    yield _value(type(member).__qualname__)
    yield from (member.name, member.value)


def _generator(generator: torch.Generator) -> Parts:
    yield generator.get_state()


_KINDS: tuple[tuple[Any, Callable[[Any], Parts]], ...] = (
    (Tensor, _tensor),
    ((np.ndarray, np.generic), _array),
    (nn.Module, _network),
    (type, class_code),
    (functools.partial, _partial),
    (types.MethodType, _method),
    (types.FunctionType, _function),
    (types.CodeType, compiled),
    ((types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType), _builtin),
    ((types.GetSetDescriptorType, types.MemberDescriptorType), _descriptor),
    ((classmethod, staticmethod, property, functools.cached_property, functools._lru_cache_wrapper), _wrapper),
    (types.ModuleType, _module),
    ((torch.dtype, torch.device, torch.memory_format, torch.layout, range, slice, PurePath), _text),
    (enum.Enum, _member),
    (torch.Generator, _generator),
)


def _object(thing: Any) -> Parts:
    kind: Any = type(thing)
    if kind in (list, tuple):
        yield from _sequence(thing)
    elif kind is OrderedDict:
        yield from _mapping(thing, list(thing))
    elif callable(thing) and hasattr(thing, "__qualname__") and is_library(getattr(thing, "__module__", None)):
        yield library_name(thing)
    elif dataclasses.is_dataclass(thing):
        yield kind
        yield {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
    elif (attributes := _attributes(thing)) is not None and not is_library(kind.__module__):
        yield from (kind, attributes)
        if isinstance(thing, dict | list | tuple | set | frozenset | str | bytes | int | float):
            # An instance of a subclass of one of these.
            base = next(each for each in kind.__mro__ if each.__module__ == "builtins")
            yield base(thing)
    else:
        # What pickling would take of it. Locks, files and generators cannot be pickled, and are refused.
        known = copyreg.dispatch_table.get(kind)
        reduced = known(thing) if known else thing.__reduce_ex__(4)
        yield kind
        if attributes is not None and not known and not _reduces(kind):
            yield attributes
        else:
            parts = [reduced] if isinstance(reduced, str) else reduced
            yield [list(each) if isinstance(each, Iterator) else each for each in parts]


def _attributes(thing: object) -> dict[str, Any] | None:
    """Attributes, including slots, without cached properties; None if the object cannot have any."""
    kind = type(thing)
    slots = [
        (name, each)
        for above in kind.__mro__
        for name, each in vars(above).items()
        if isinstance(each, types.MemberDescriptorType) and not is_library(above.__module__)
    ]
    if not slots and not hasattr(thing, "__dict__"):
        return None
    found = getattr(thing, "__dict__", {}).items()
    own = {name: each for name, each in found if not isinstance(inspect.getattr_static(kind, name, None), _CACHED)}
    return own | {name: each.__get__(thing) for name, each in slots if _is_set(each, thing)}


_CACHED = functools.cached_property


def _is_set(slot: types.MemberDescriptorType, thing: object) -> bool:
    try:
        slot.__get__(thing)
    except AttributeError:
        return False
    return True


def _reduces(kind: type) -> bool:
    """Whether a type defines how it is pickled."""
    return any(
        getattr(kind, name, None) is not getattr(object, name, None)
        for name in ("__reduce__", "__reduce_ex__", "__getstate__")
    )
