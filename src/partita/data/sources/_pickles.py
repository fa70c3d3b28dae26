"""How are pickled arrays of other libraries read? By a reader of the pickle format that calls nothing a file names.

A pickle is a program for a small machine. This one knows the instructions that plain values and numpy's arrays need.
It never imports what a pickle asks for: it builds arrays itself, from numbers, truth values, text or lists of plain
values, and checks their type, shape and number of bytes. Anything else is refused.
"""

import io
import math
import pickletools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.lib import format as npy

from ...errors import PartitaError
from ..arrays import open_zip, reading
from ..pool import Array

# As pickles name them; numpy's inner modules were renamed in version 2.
_NDARRAY, _DTYPE = "numpy.ndarray", "numpy.dtype"
_RECONSTRUCT, _SCALAR = "numpy.core.multiarray._reconstruct", "numpy.core.multiarray.scalar"
_FROM_BUFFER = "numpy.core.numeric._frombuffer"
_ENCODE = "_codecs.encode"
_BYTES = ("builtins.bytes", "__builtin__.bytes")
_KNOWN = frozenset({_NDARRAY, _DTYPE, _RECONSTRUCT, _SCALAR, _FROM_BUFFER, _ENCODE, *_BYTES})

_NUMBERS = frozenset({"INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"})
_TEXTS = frozenset({"STRING", "BINSTRING", "SHORT_BINSTRING"})
_UNICODE = frozenset({"UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"})
_CONTENTS = frozenset({"BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"})
_LITERALS = _NUMBERS | _TEXTS | _UNICODE | _CONTENTS
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, type] = {"EMPTY_LIST": list, "EMPTY_TUPLE": tuple, "EMPTY_DICT": dict}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_IGNORED = frozenset({"PROTO", "FRAME"})
_STORE, _RECALL = frozenset({"PUT", "BINPUT", "LONG_BINPUT"}), frozenset({"GET", "BINGET", "LONG_BINGET"})

# Truth values, whole numbers, numbers and text; objects only where a list holds them.
_CODE = re.compile(r"b1|[iu][1248]|f[248]|U[1-9][0-9]{0,5}|O8?")
_MARK = object()


@dataclass(frozen=True)
class _Name:
    """The name of what a pickle asks for, and not the thing itself."""

    name: str


@dataclass
class _Type:
    """The type of an array that is to be built."""

    code: str
    order: Literal["<", ">", "|", "="] = "="


@dataclass
class _Unbuilt:
    """An array of which the content comes later."""

    array: Array | None = None


def unpickle(content: bytes, where: Path | str) -> object:
    """Lists, dictionaries, numbers, texts and arrays; a pickle that asks for anything else is refused."""
    try:
        return _Reader().read(content)
    except PartitaError as problem:
        raise PartitaError(
            f"{where} is refused: {problem}. A pickle can run any program, so only plain values and numpy's arrays are "
            "read from it."
        ) from None
    except Exception as problem:
        # A damaged pickle can end in almost any error.
        raise PartitaError(f"{where} cannot be read as a pickle: {problem}. Is it damaged or truncated?") from problem


def load_pickled_npz(path: Path, key: str) -> object:
    """The one object that numpy pickled into an .npz file under a key."""
    with reading(path, "an .npz file"), open_zip(path) as archive:
        if f"{key}.npy" not in archive.namelist():
            raise ValueError(f"it has no {key!r}")
        stream = io.BytesIO(archive.read(f"{key}.npy"))
        version = npy.read_magic(stream)
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = header(stream)
        if shape != () or dtype != np.dtype(object):
            raise ValueError(f"{key!r} is an array of {dtype} and not one pickled object")
    array = unpickle(stream.read(), path)
    return array.item() if isinstance(array, np.ndarray) and array.ndim == 0 else array


class _Reader:
    """The machine that a pickle is a program for: a stack, and a memory of what may be needed again."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memory: dict[int, Any] = {}

    def read(self, content: bytes) -> object:
        for instruction, argument, _ in pickletools.genops(content):
            if instruction.name == "STOP":
                break
            self._do(instruction.name, argument)
        (value,) = self._stack
        if isinstance(value, _Name | _Type | _Unbuilt):
            _refuse("it ends with a name or with half an array")
        return value

    def _do(self, instruction: str, argument: Any) -> None:
        stack = self._stack
        if instruction in _LITERALS:
            stack.append(argument)
        elif instruction in _CONSTANTS:
            stack.append(_CONSTANTS[instruction])
        elif instruction in _EMPTY:
            stack.append(_EMPTY[instruction]())
        elif instruction in _STORE:
            self._memory[int(argument)] = stack[-1]
        elif instruction == "MEMOIZE":
            self._memory[len(self._memory)] = stack[-1]
        elif instruction in _RECALL:
            stack.append(_finished(self._memory[int(argument)]))
        elif instruction == "MARK":
            stack.append(_MARK)
        elif instruction in _TUPLES:
            stack.append(tuple(self._take(_TUPLES[instruction])))
        elif instruction == "TUPLE":
            stack.append(tuple(self._take_marked()))
        elif instruction == "LIST":
            stack.append(_extended([], self._take_marked()))
        elif instruction == "DICT":
            stack.append(_updated({}, self._take_marked()))
        elif instruction in ("APPEND", "APPENDS"):
            added = self._take_marked() if instruction == "APPENDS" else self._take(1)
            _extended(stack[-1], added)
        elif instruction in ("SETITEM", "SETITEMS"):
            added = self._take_marked() if instruction == "SETITEMS" else self._take(2)
            _updated(stack[-1], added)
        elif instruction == "POP":
            self._take(1)
        elif instruction == "POP_MARK":
            self._take_marked()
        elif instruction == "GLOBAL":
            stack.append(_named(*argument.split(" ", 1)))
        elif instruction == "STACK_GLOBAL":
            stack.append(_named(*self._take(2)))
        elif instruction == "REDUCE":
            stack.append(_called(*self._take(2)))
        elif instruction == "BUILD":
            stack.append(_built(*self._take(2)))
        elif instruction not in _IGNORED:
            _refuse(f"it uses the instruction {instruction}")

    def _take(self, count: int) -> list[Any]:
        if count > len(self._stack):
            raise ValueError("it takes a value from an empty stack")
        taken = self._stack[len(self._stack) - count :]
        del self._stack[len(self._stack) - count :]
        return taken

    def _take_marked(self) -> list[Any]:
        below = next((at for at, value in enumerate(reversed(self._stack)) if value is _MARK), len(self._stack))
        return self._take(below + 1)[1:]


def _refuse(reason: str) -> NoReturn:
    raise PartitaError(reason)


def _finished(value: Any) -> Any:
    return value.array if isinstance(value, _Unbuilt) and value.array is not None else value


def _extended(target: Any, values: list[Any]) -> list[Any]:
    if type(target) is not list:
        _refuse(f"it appends to a {type(target).__name__}")
    target.extend(map(_plain, values))
    return target


def _updated(target: Any, pairs: list[Any]) -> dict[Any, Any]:
    if type(target) is not dict or len(pairs) % 2:
        _refuse(f"it sets items of a {type(target).__name__}")
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        # Keys that hold others could be nested so deep that their hash overflows the stack.
        if not isinstance(key, str | int | float | bytes | None):
            _refuse(f"a dictionary has a key of type {type(key).__name__}")
        target[key] = _plain(value)
    return target


def _plain(value: Any) -> Any:
    if isinstance(value, _Name | _Type | _Unbuilt) or value is _MARK:
        _refuse("it keeps a name or half an array as a value")
    return value


def _named(module: object, name: object) -> _Name:
    known = f"{module}.{name}".replace("numpy._core.", "numpy.core.")
    if known not in _KNOWN:
        _refuse(f"it asks for {module}.{name}, and only numpy's arrays are allowed")
    return _Name(known)


def _called(function: Any, given: Any) -> Any:
    """What the call of a known name makes."""
    if not isinstance(function, _Name) or type(given) is not tuple:
        _refuse(f"it calls a {type(function).__name__}")
    match function.name, given:
        case name, (code, *_) if name == _DTYPE:
            return _typed(code)
        case name, (_Name(kind), *_) if name == _RECONSTRUCT and kind == _NDARRAY:
            return _Unbuilt()
        case name, (_Type() as kind, content) if name == _SCALAR:
            return _array(kind, (), content, "C")[()]
        case name, (content, _Type() as kind, shape, order) if name == _FROM_BUFFER:
            return _array(kind, shape, content, order)
        case name, (content, _Type() as kind, shape, _, tuple(axes)) if name == _FROM_BUFFER:
            return _array(kind, shape, content, "C").transpose(axes)
        case name, (str(text), "latin1") if name == _ENCODE:
            # Old pickles hold bytes as text of one character each.
            return text.encode("latin1")
        case name, () if name in _BYTES:
            return b""
    _refuse(f"it calls {function.name} otherwise than an array does")


def _typed(code: object) -> _Type:
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        _refuse(f"it asks for an array of type {code!r}, and only numbers and text are allowed")
    return _Type(code)


def _built(target: Any, state: Any) -> Any:
    """A type with its byte order, or an array with its content."""
    match target, state:
        case _Type(), (3, "<" | ">" | "|" | "=" as order, None, None, None, int(), int(), int()):
            target.order = order
            return target
        case _Unbuilt(None), (1, shape, _Type() as kind, bool() | int() as by_columns, content):
            array = _array(kind, shape, content, "F" if by_columns else "C")
            # As numpy does: in the machine's byte order.
            target.array = array.astype(array.dtype.newbyteorder("="), copy=False)
            return target.array
    _refuse(f"it changes a {type(target).__name__.strip('_').lower()} otherwise than an array does")


def _array(kind: _Type, shape: object, content: object, order: object) -> Array:
    if type(shape) is not tuple or len(shape) > 32 or not all(type(side) is int and side >= 0 for side in shape):
        _refuse(f"an array has the shape {str(shape)[:100]}")
    if order not in ("C", "F"):
        _refuse(f"an array has the order {str(order)[:100]}")
    count = math.prod(shape)
    values = _objects(content, count) if kind.code.startswith("O") else _values(kind, content, count)
    return values.reshape(shape, order="F" if order == "F" else "C")


def _objects(content: object, count: int) -> Array:
    if type(content) is not list or len(content) != count:
        _refuse("an array of objects is not given as a list of them")
    values = np.empty(count, dtype=object)
    for at, value in enumerate(content):
        values[at] = value
    return values


def _values(kind: _Type, content: object, count: int) -> Array:
    if not isinstance(content, bytes | bytearray):
        _refuse("the content of an array is not bytes")
    dtype = np.dtype(kind.code).newbyteorder(kind.order)
    if len(content) != count * dtype.itemsize:
        _refuse(f"an array of {count} values of type {kind.code} has {len(content)} bytes")
    raw = np.frombuffer(content, dtype=np.uint8)
    values: Array = raw.view(dtype)
    # Other bytes are no truth values, and no characters.
    if dtype.kind == "b" and raw.max(initial=0) > 1:
        _refuse("an array of truth values holds others")
    if dtype.kind == "U" and values.view(np.dtype("u4").newbyteorder(kind.order)).max(initial=0) > 0x10FFFF:
        _refuse("an array of text holds a number that is no character")
    return values
