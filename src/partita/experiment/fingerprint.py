"""Are these the same objects as before? A fingerprint covers the values of an object and the source of its code."""

import dataclasses
import enum
import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping, Set
from pathlib import PurePath
from typing import Any

import cloudpickle
import numpy as np
import torch
from torch import Tensor, nn

from ..errors import PartitaError

LIBRARIES = frozenset({"partita", "torch", "numpy"}) | sys.stdlib_module_names
"""Their code is known by name: a run notes their versions beside its fingerprints."""
OF_EVERY_TYPE = frozenset(vars(type("Empty", (), {}))) | {
    "__annotations__",
    "__firstlineno__",
    "__static_attributes__",
    "__qualname__",
    "__dataclass_fields__",
    "__dataclass_params__",
    "__match_args__",
    "_abc_impl",
}


def fingerprint(thing: object) -> str:
    """SHA-256 of an object: equal for objects that are made alike, in this process or another.

    Functions and classes count with their source, what they close over and what they use of their own module; names of
    Python's, torch's, numpy's and our own code stand for themselves. Tensors and arrays count with their bytes.
    """
    digest = hashlib.sha256()
    for token in _Tokens().of(thing):
        digest.update(token)
        digest.update(b"\0")
    return digest.hexdigest()


class _Tokens:
    """Walks through an object; what was met before is only referred to, so that cycles end."""

    def __init__(self) -> None:
        self._met: dict[int, int] = {}
        # Objects made on the way are held, so that no other gets their address.
        self._held: list[object] = []

    def of(self, thing: object) -> Iterator[bytes]:
        if thing is None or isinstance(thing, bool | int | float | complex | str | bytes | PurePath):
            yield f"{type(thing).__name__}:{thing!r}".encode()
            return
        if id(thing) in self._met:
            yield f"again:{self._met[id(thing)]}".encode()
            return
        self._met[id(thing)] = len(self._met)
        self._held.append(thing)
        for kinds, walk in self._walks:
            if isinstance(thing, kinds):
                yield from walk(self, thing)
                return
        yield from self._object(thing)

    def _tensor(self, tensor: Tensor) -> Iterator[bytes]:
        yield f"tensor:{tensor.dtype}:{tuple(tensor.shape)}:{tensor.requires_grad}".encode()
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        yield flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""

    def _array(self, array: "np.ndarray[Any, Any] | np.generic") -> Iterator[bytes]:
        values = np.ascontiguousarray(array)
        yield f"array:{values.dtype}:{values.shape}".encode()
        if values.dtype.hasobject:
            yield from self.of(values.tolist())
        else:
            yield values.tobytes()

    def _sequence(self, items: "list[object] | tuple[object, ...]") -> Iterator[bytes]:
        yield f"sequence:{type(items).__name__}:{len(items)}".encode()
        for item in items:
            yield from self.of(item)

    def _mapping(self, items: Mapping[Any, object]) -> Iterator[bytes]:
        yield f"mapping:{len(items)}".encode()
        for key in sorted(items, key=repr):
            yield from self.of(key)
            yield from self.of(items[key])

    def _set(self, items: Set[object]) -> Iterator[bytes]:
        yield f"set:{len(items)}".encode()
        yield from sorted(fingerprint(item).encode() for item in items)

    def _partial(self, made: "functools.partial[object]") -> Iterator[bytes]:
        yield b"partial"
        for part in (made.func, made.args, made.keywords):
            yield from self.of(part)

    def _method(self, method: types.MethodType) -> Iterator[bytes]:
        yield b"method"
        yield from self.of(method.__self__)
        yield from self.of(method.__func__)

    def _function(self, function: types.FunctionType) -> Iterator[bytes]:
        yield f"function:{function.__qualname__}".encode()
        yield from self.of(function.__defaults__)
        yield from self.of(function.__kwdefaults__)
        for cell in function.__closure__ or ():
            try:
                yield from self.of(cell.cell_contents)
            except ValueError:
                yield b"empty"
        if _of_library(function):
            yield (function.__module__ or "").encode()
            return
        yield from self._code(function.__code__)
        for name in sorted(_names(function.__code__)):
            if name in function.__globals__ and _is_decisive(used := function.__globals__[name]):
                yield name.encode()
                yield from self.of(used)

    def _code(self, code: types.CodeType) -> Iterator[bytes]:
        try:
            yield inspect.cleandoc(inspect.getsource(code)).encode()
        except (OSError, TypeError):
            # Typed at a prompt, or compiled from a string.
            yield code.co_code
            for constant in code.co_consts:
                yield from self._code(constant) if isinstance(constant, types.CodeType) else self.of(constant)

    def _type(self, kind: type) -> Iterator[bytes]:
        yield f"type:{kind.__qualname__}".encode()
        if _of_library(kind):
            yield kind.__module__.encode()
            return
        for base in kind.__bases__:
            yield from self.of(base)
        for name in sorted(vars(kind).keys() - OF_EVERY_TYPE):
            yield name.encode()
            yield from self.of(vars(kind)[name])

    def _wrapper(self, wrapper: Any) -> Iterator[bytes]:
        yield type(wrapper).__name__.encode()
        for name in ("__func__", "func", "fget", "fset", "fdel"):
            yield from self.of(getattr(wrapper, name, None))

    def _named(self, thing: Any) -> Iterator[bytes]:
        yield f"named:{getattr(thing, '__module__', '')}:{getattr(thing, '__qualname__', thing)!s}".encode()

    def _module(self, module: types.ModuleType) -> Iterator[bytes]:
        yield f"module:{module.__name__}".encode()

    def _text(self, thing: object) -> Iterator[bytes]:
        yield f"{type(thing).__name__}:{thing}".encode()

    def _generator(self, generator: torch.Generator) -> Iterator[bytes]:
        yield from self.of(generator.get_state())

    def _object(self, thing: object) -> Iterator[bytes]:
        yield b"object"
        yield from self.of(type(thing))
        if dataclasses.is_dataclass(thing):
            yield from self._mapping({field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)})
        elif hasattr(thing, "__dict__"):
            kind = type(thing)
            kept = {
                name: value
                for name, value in vars(thing).items()
                if not isinstance(inspect.getattr_static(kind, name, None), functools.cached_property)
            }
            yield from self._mapping(kept)
        else:
            try:
                yield cloudpickle.dumps(thing)
            except Exception as problem:
                raise PartitaError(
                    f"A {type(thing).__name__} cannot be compared with that of an earlier run ({problem}). Hold plain "
                    "values, tensors or dataclasses instead."
                ) from problem

    _walks: tuple[tuple[Any, Callable[["_Tokens", Any], Iterator[bytes]]], ...] = ()


_Tokens._walks = (
    (Tensor, _Tokens._tensor),
    ((np.ndarray, np.generic), _Tokens._array),
    (type, _Tokens._type),
    (functools.partial, _Tokens._partial),
    (types.MethodType, _Tokens._method),
    (types.FunctionType, _Tokens._function),
    ((types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType), _Tokens._named),
    ((types.GetSetDescriptorType, types.MemberDescriptorType, types.GenericAlias), _Tokens._text),
    ((classmethod, staticmethod, property, functools.cached_property), _Tokens._wrapper),
    (types.ModuleType, _Tokens._module),
    ((torch.dtype, torch.device, torch.memory_format, torch.Size, enum.Enum, range, slice), _Tokens._text),
    (torch.Generator, _Tokens._generator),
    ((list, tuple), _Tokens._sequence),
    (Mapping, _Tokens._mapping),
    (Set, _Tokens._set),
)


def _of_library(code: Any) -> bool:
    return (getattr(code, "__module__", None) or "").partition(".")[0] in LIBRARIES


def _is_decisive(thing: object) -> bool:
    """Whether a global is code or a value that the meaning of a function depends on."""
    if isinstance(thing, types.FunctionType | type):
        return not _of_library(thing)
    return isinstance(thing, bool | int | float | str | tuple | frozenset | Tensor | nn.Module)


def _names(code: types.CodeType) -> set[str]:
    """Global names that code uses, also within functions that it defines."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found
