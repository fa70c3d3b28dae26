"""How do objects get from one process to another? As a block of bytes, in a pipe or, if it is large, in shared memory.

A block holds the bytes of all tensors, then the pickle of everything else, then where the pickle begins. A large block
is in a file without a name: both processes map it, and it is gone with the last of them, however they end.
"""

import io
import mmap
import os
import pickle
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from typing import IO, Any, BinaryIO

import cloudpickle
import torch
from torch import Tensor

from ...errors import PartitaError

ALIGNMENT = 64
"""Where a tensor begins decides which instructions work on it, and so the last bits of a result."""
SMALL = 1 << 16
"""Bytes up to which a block goes through the pipe: a file costs more than a copy."""
OFFSET = 8
"""Bytes at the end of a block that say where its pickle begins."""
Places = dict[tuple[object, ...], tuple[int, tuple[int, ...], torch.dtype]]
"""By what identifies a tensor in this process: its offset, shape and type."""


@dataclass(frozen=True, eq=False)
class Message:
    """An object on its way. It may be sent several times, until it is closed."""

    size: int
    content: bytes | IO[bytes]
    places: Places = field(repr=False)
    """Where each tensor is in the block. Known to the sender alone."""

    def send(self, connection: Connection, receiver: int) -> None:
        """To the process with the id `receiver`, at the other end of the connection."""
        if isinstance(self.content, bytes):
            connection.send(self.content)
            return
        connection.send(self.size)
        send_handle(connection, _handle(self.content.fileno()), receiver)

    def memory(self) -> Tensor:
        """The block, as a receiver gets it."""
        return copied(self.content) if isinstance(self.content, bytes) else _mapped(self.content.fileno(), self.size)

    def close(self) -> None:
        if not isinstance(self.content, bytes):
            self.content.close()


def receive(connection: Connection) -> Tensor:
    """The block of a message. What the receiver writes to it stays its own."""
    content: bytes | int = connection.recv()
    if isinstance(content, bytes):
        return copied(content)
    with open(_descriptor(recv_handle(connection)), "rb") as file:
        return _mapped(file.fileno(), content)


def pack(thing: object, *, code: bool = False, known: Message | None = None) -> Message:
    """With `code`, functions that a module does not name travel too. Tensors that `known` holds do not travel again."""
    pickled = io.BytesIO()
    pickler = (_CodePickler if code else _Pickler)(pickled, known.places if known else {})
    pickler.dump(thing)
    offset = sum(map(_padded, pickler.tensors))
    end = pickled.getvalue() + offset.to_bytes(OFFSET, "little")
    size = offset + len(end)
    if size <= SMALL:
        padded = (_bytes(tensor).numpy().tobytes().ljust(_padded(tensor), b"\0") for tensor in pickler.tensors)
        return Message(size, b"".join((*padded, end)), pickler.places)
    file = _file_without_name()
    try:
        for tensor in pickler.tensors:
            # Written, not mapped: where there is no room that is an error and no signal, and no page is cleared.
            file.write(_bytes(tensor).numpy().data)
            file.write(bytes(_padded(tensor) - tensor.nbytes))
        file.write(end)
        file.flush()
    except OSError as problem:
        # Closing it tries to write what is left, once more.
        with suppress(OSError):
            file.close()
        raise PartitaError(
            f"There is no room for {size >> 20} MB that processes exchange ({problem.strerror}). Make room, or let one "
            "process do the work (--on inline)."
        ) from problem
    except BaseException:
        file.close()
        raise
    return Message(size, file, pickler.places)


def unpack(block: Tensor, known: Tensor | None = None) -> Any:
    """The object that was packed. `known` is the block of the message whose tensors did not travel again."""
    content = block.numpy().data
    offset = int.from_bytes(content[-OFFSET:], "little")
    return _Unpickler(io.BytesIO(content[offset:-OFFSET]), block, known).load()


def _file_without_name() -> IO[bytes]:
    """In memory where the system has such files, else among temporary ones."""
    if hasattr(os, "memfd_create"):
        with suppress(OSError):
            return open(os.memfd_create("partita"), "w+b")
    return tempfile.TemporaryFile()


def _mapped(descriptor: int, size: int) -> Tensor:
    path = Path(f"/dev/fd/{descriptor}")
    if path.exists():
        # Unlike Python's, torch's mapping keeps no file open: there may be thousands.
        return torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)
    return torch.frombuffer(mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY), dtype=torch.uint8)


def copied(content: bytes | memoryview) -> Tensor:
    """In memory of torch, which is aligned."""
    block = torch.empty(len(content), dtype=torch.uint8)
    block.numpy().data[:] = content
    return block


if sys.platform == "win32":
    import msvcrt

    def _handle(descriptor: int) -> int:
        return msvcrt.get_osfhandle(descriptor)

    def _descriptor(handle: int) -> int:
        return msvcrt.open_osfhandle(handle, os.O_RDONLY)

else:

    def _handle(descriptor: int) -> int:
        return descriptor

    def _descriptor(handle: int) -> int:
        return handle


class _SettingAside:
    """A pickler that sets tensors aside, each once."""

    def __init__(self, target: BinaryIO, known: Places) -> None:
        # The mixed-in picklers have no constructor in common that types know of.
        super().__init__(target, protocol=pickle.HIGHEST_PROTOCOL)  # type: ignore[call-arg]
        self.tensors: list[Tensor] = []
        self.places: Places = {}
        self._known = known
        self._offset = 0

    def persistent_id(self, thing: object) -> object:
        # A tensor of another kind is pickled as torch does it.
        if type(thing) is not Tensor or thing.layout is not torch.strided or thing.device.type != "cpu":
            return None
        key = (thing.data_ptr(), tuple(thing.shape), thing.stride(), thing.dtype, thing.is_conj(), thing.is_neg())
        if thing.numel() and key in self._known:
            return "known", *self._known[key]
        if key not in self.places:
            self.places[key] = (self._offset, tuple(thing.shape), thing.dtype)
            self._offset += _padded(thing)
            self.tensors.append(thing.detach())
        return "own", *self.places[key]


class _Pickler(_SettingAside, pickle.Pickler):
    pass


class _CodePickler(_SettingAside, cloudpickle.Pickler):  # type: ignore[misc]
    pass


class _Unpickler(pickle.Unpickler):
    def __init__(self, source: BinaryIO, own: Tensor, known: Tensor | None) -> None:
        super().__init__(source)
        self._blocks = {"own": own, "known": known}
        self._made: dict[tuple[object, ...], Tensor] = {}

    def persistent_load(self, key: Any) -> Tensor:
        if key not in self._made:
            where, offset, shape, dtype = key
            block = self._blocks[where]
            assert block is not None, "a message refers to another one"
            count = torch.Size(shape).numel() * dtype.itemsize
            self._made[key] = block[offset : offset + count].view(dtype).view(shape)
        return self._made[key]


def _padded(tensor: Tensor) -> int:
    return -(-tensor.nbytes // ALIGNMENT) * ALIGNMENT


def _bytes(tensor: Tensor) -> Tensor:
    if not tensor.numel():
        return torch.empty(0, dtype=torch.uint8)
    flat = tensor.resolve_conj().resolve_neg().contiguous().reshape(-1)
    # A single number may claim any stride.
    return (flat if flat.stride(0) == 1 else flat.clone(memory_format=torch.contiguous_format)).view(torch.uint8)
