"""How do objects get from one process to another? As a block of bytes, in a pipe or, if it is large, in shared memory.

A block holds the bytes of all tensors, then the pickle of everything else, then the offset of the pickle. A large block
is in an unnamed file that both processes map. The system frees it when both have closed it, even if they are killed.
"""

import io
import mmap
import os
import pickle
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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
"""The alignment of tensors. It affects which instructions are used, and so the last bits of a result."""
SMALL = 1 << 16
"""Blocks of at most this many bytes go through the pipe, because a file costs more than a copy."""
OFFSET = 8
"""The size in bytes of the pickle's offset at the end of a block."""
Places = dict[tuple[object, ...], tuple[int, tuple[int, ...], torch.dtype]]
"""The offset, shape and type of each tensor, by its identity in this process."""


@dataclass(frozen=True, eq=False)
class Message:
    """A packed object. It can be sent several times, until it is closed."""

    size: int
    content: bytes | IO[bytes]
    places: Places = field(repr=False)
    """Where each tensor is in the block. Only the sender knows this."""

    def send(self, connection: Connection, receiver: int) -> None:
        """Send to the process with the id `receiver` at the other end of the connection."""
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
    """The block of a message. Changes that the receiver makes to it are not seen by the sender."""
    content: bytes | int = connection.recv()
    if isinstance(content, bytes):
        return copied(content)
    with open(_descriptor(recv_handle(connection)), "rb") as file:
        return _mapped(file.fileno(), content)


def pack(thing: object, *, code: bool = False, known: Message | None = None) -> Message:
    """Pack an object, without the tensors in `known`. With `code`, functions that cannot be imported are included."""
    pickled = io.BytesIO()
    pickler = (_CodePickler if code else _Pickler)(pickled, known.places if known else {})
    with _one_main_module():
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
            # Written, not mapped: without space, writing raises an error, and a mapping would crash the process.
            file.write(_bytes(tensor).numpy().data)
            file.write(bytes(_padded(tensor) - tensor.nbytes))
        file.write(end)
        file.flush()
    except OSError as problem:
        # Closing it tries once more to write what is left.
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
    """Unpack an object. `known` is the block of the message whose tensors were not sent again."""
    content = block.numpy().data
    offset = int.from_bytes(content[-OFFSET:], "little")
    return _Unpickler(io.BytesIO(content[offset:-OFFSET]), block, known).load()


@contextmanager
def _one_main_module() -> Iterator[None]:
    """Hide the second name of the main module, `__mp_main__`, under which multiprocessing registers it.

    Pickle finds objects such as `torch.contiguous_format` in the first module that imports torch. In a script that is
    the main module, which a worker does not have.
    """
    alias = sys.modules.pop("__mp_main__", None)
    try:
        yield
    finally:
        if alias is not None:
            sys.modules["__mp_main__"] = alias


def _file_without_name() -> IO[bytes]:
    """An unnamed file in memory if the system supports it, otherwise a temporary file."""
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
    """The bytes in memory that torch allocated, which is aligned."""
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
    """A pickler that collects tensors separately, each once."""

    def __init__(self, target: BinaryIO, known: Places) -> None:
        # The mixed-in picklers have no constructor in common that types know of.
        super().__init__(target, protocol=pickle.HIGHEST_PROTOCOL)  # type: ignore[call-arg]
        self.tensors: list[Tensor] = []
        self.places: Places = {}
        self._known = known
        self._offset = 0

    def persistent_id(self, thing: object) -> object:
        # Tensors of other kinds are pickled by torch.
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
    # A tensor of one entry may have any stride.
    return (flat if flat.stride(0) == 1 else flat.clone(memory_format=torch.contiguous_format)).view(torch.uint8)
