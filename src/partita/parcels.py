"""How do tensors get from one process to another? In a file that both map into memory, so that they travel by name."""

import io
import os
import pickle
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import cloudpickle
import torch
from torch import Tensor

from .errors import PartitaError

ALIGNMENT = 64
"""Where a tensor begins decides which instructions work on it, and so the last bits of a result."""
SMALL = 1 << 16
"""Bytes below which tensors travel with the message: a file costs more than a copy."""


@dataclass(frozen=True)
class Parcel:
    """An object on its way: its pickle without tensors, and the tensors' bytes, here or in a file."""

    message: bytes
    size: int
    path: Path | None = None
    inline: bytes = b""

    def discard(self) -> None:
        """Take the file away; whoever has opened it keeps what is in it."""
        if self.path:
            self.path.unlink(missing_ok=True)


def pack(thing: object, folder: Path, *, code: bool = False) -> Parcel:
    """With `code`, functions that a module does not name can travel too."""
    target = io.BytesIO()
    pickler = (_CodePickler if code else _Pickler)(target)
    pickler.dump(thing)
    size = sum(_padded(tensor) for tensor in pickler.tensors)
    if size <= SMALL:
        memory = torch.empty(size, dtype=torch.uint8)
        _fill_(memory, pickler.tensors)
        return Parcel(target.getvalue(), size, inline=memory.numpy().tobytes())
    handle, name = tempfile.mkstemp(dir=folder)
    try:
        _reserve(handle, size, folder)
        _fill_(torch.from_file(name, shared=True, size=size, dtype=torch.uint8), pickler.tensors)
    except BaseException:
        os.unlink(name)
        raise
    finally:
        os.close(handle)
    return Parcel(target.getvalue(), size, Path(name))


def _reserve(handle: int, size: int, folder: Path) -> None:
    """A file that cannot have its space is found out here, and not by a signal when it is written to."""
    if not hasattr(os, "posix_fallocate"):
        os.ftruncate(handle, size)
        return
    try:
        os.posix_fallocate(handle, 0, size)
    except OSError as problem:
        raise PartitaError(
            f"{folder} has no room for {size >> 20} MB that processes exchange ({problem.strerror}). Make room, or let "
            "one process do the work (--workers 1)."
        ) from problem


def unpack(parcel: Parcel) -> Any:
    """What was packed; large tensors are where the sender put them, not a copy."""
    if parcel.path:
        # What a receiver writes stays its own.
        memory = torch.from_file(str(parcel.path), shared=False, size=parcel.size, dtype=torch.uint8)
    else:
        memory = torch.empty(parcel.size, dtype=torch.uint8)
        if parcel.inline:
            memory.copy_(torch.frombuffer(bytearray(parcel.inline), dtype=torch.uint8))
    return _Unpickler(io.BytesIO(parcel.message), memory).load()


def memory_folder() -> Path:
    """A new folder for parcels: in memory where the system has a place for that, else among temporary files."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and _free(memory) > 1 << 30
    return Path(tempfile.mkdtemp(prefix="partita-", dir=memory if roomy else None))


def _free(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


class _SettingAside:
    """A pickler that sets tensors aside, each once."""

    def __init__(self, target: BinaryIO) -> None:
        super().__init__(target, protocol=pickle.HIGHEST_PROTOCOL)  # type: ignore[call-arg]
        self.tensors: list[Tensor] = []
        self._known: dict[tuple[object, ...], tuple[object, ...]] = {}
        self._offset = 0

    def persistent_id(self, thing: object) -> object:
        if type(thing) is not Tensor:
            return None
        key = (thing.data_ptr(), tuple(thing.shape), thing.stride(), thing.dtype, thing.is_conj(), thing.is_neg())
        if key not in self._known:
            self._known[key] = (self._offset, tuple(thing.shape), thing.dtype)
            self._offset += _padded(thing)
            self.tensors.append(thing.detach())
        return self._known[key]


class _Pickler(_SettingAside, pickle.Pickler):
    pass


class _CodePickler(_SettingAside, cloudpickle.Pickler):  # type: ignore[misc]
    pass


class _Unpickler(pickle.Unpickler):
    def __init__(self, source: BinaryIO, memory: Tensor) -> None:
        super().__init__(source)
        self._memory = memory
        self._known: dict[tuple[object, ...], Tensor] = {}

    def persistent_load(self, key: Any) -> Tensor:
        if key not in self._known:
            offset, shape, dtype = key
            count = torch.Size(shape).numel() * dtype.itemsize
            self._known[key] = self._memory[offset : offset + count].view(dtype).view(shape)
        return self._known[key]


def _padded(tensor: Tensor) -> int:
    size = tensor.numel() * tensor.element_size()
    return -(-size // ALIGNMENT) * ALIGNMENT


def _fill_(memory: Tensor, tensors: list[Tensor]) -> None:
    offset = 0
    for tensor in tensors:
        count = tensor.numel() * tensor.element_size()
        memory[offset : offset + count].view(tensor.dtype).view(tensor.shape).copy_(tensor)
        offset += _padded(tensor)
