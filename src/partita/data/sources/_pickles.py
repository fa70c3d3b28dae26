"""How are pickled arrays of other libraries read? By an unpickler that knows arrays and plain values, and nothing else.

A pickle is a program. Here it can call only what rebuilds numpy's arrays; all else is refused before it is called.
"""

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy

from ...errors import PartitaError
from ..arrays import reading
from ..pool import Array


def _encode(text: str, encoding: str) -> bytes:
    # Old pickles hold bytes as text of one character each.
    if encoding != "latin1":
        raise pickle.UnpicklingError(f"text in {encoding}")
    return text.encode(encoding)


def _from_buffer(buffer: Any, dtype: Any, shape: Any, order: Any, axes: Any = None) -> Array:
    values: Array = np.frombuffer(buffer, dtype=dtype)
    return values.reshape(shape, order=order) if axes is None else values.reshape(shape).transpose(axes)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        # numpy's inner modules were renamed in version 2.
        known = (module.replace("numpy._core", "numpy.core"), name)
        if known in {("numpy", "ndarray"), ("numpy", "dtype")}:
            return getattr(np, name)
        if known == ("numpy.core.multiarray", "_reconstruct"):
            return np.ndarray.__reduce__(np.empty(0))[0]
        if known == ("numpy.core.multiarray", "scalar"):
            return np.int64(0).__reduce__()[0]
        # New functions each time: a pickle can change attributes of what it is given.
        if known == ("numpy.core.numeric", "_frombuffer"):
            return lambda *given: _from_buffer(*given)
        if known == ("_codecs", "encode"):
            return lambda *given: _encode(*given)
        if known in {("__builtin__", "bytes"), ("builtins", "bytes")}:
            # So old pickles make an empty one.
            return lambda: b""
        raise PartitaError(f"it asks for {module}.{name}, and only numpy's arrays are allowed")


def unpickle(content: bytes, where: Path | str) -> object:
    """Lists, dictionaries, numbers, texts and arrays; a pickle that asks for anything else is refused."""
    try:
        return _Unpickler(io.BytesIO(content)).load()
    except PartitaError as problem:
        raise PartitaError(
            f"{where} is refused: {problem}. A pickle can run any program; open it only if you trust its maker."
        ) from None
    except Exception as problem:
        # A damaged pickle can end in almost any error.
        raise PartitaError(f"{where} cannot be read as a pickle: {problem}. Is it damaged or truncated?") from problem


def load_pickled_npz(path: Path, key: str) -> object:
    """The one object that numpy pickled into an .npz file under a key."""
    with reading(path, "an .npz file"), zipfile.ZipFile(path) as archive:
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
