"""How do tensors get from one process to another? In a file that both map into memory, so that only names travel."""

import fcntl
import io
import os
import pickle
import shutil
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, BinaryIO

import cloudpickle
import torch
from torch import Tensor

from ...errors import PartitaError

ALIGNMENT = 64
"""Where a tensor begins decides which instructions work on it, and so the last bits of a result."""
Places = dict[tuple[object, ...], tuple[int, tuple[int, ...], torch.dtype]]
"""By what identifies a tensor in this process: its offset, shape and type."""
PREFIX, LOCK = "partita-", "lock"
SMALL = 1 << 16
"""Bytes below which tensors travel with the message: a file costs more than a copy."""


@dataclass(frozen=True)
class Message:
    """An object on its way: its pickle without tensors, and the tensors' bytes, here or in a file."""

    pickled: bytes
    size: int
    path: Path | None = None
    inline: bytes = b""
    places: Places = field(default_factory=dict, compare=False, repr=False)
    """Where each tensor is among the bytes. Known to the sender alone."""

    def discard(self) -> None:
        """Delete the file; whoever has opened it keeps what is in it."""
        if self.path:
            self.path.unlink(missing_ok=True)

    def memory(self) -> Tensor:
        """The tensors' bytes: where the sender put them if they are in a file, else a copy."""
        if self.path:
            # What a receiver writes stays its own.
            return torch.from_file(str(self.path), shared=False, size=self.size, dtype=torch.uint8)
        memory = torch.empty(self.size, dtype=torch.uint8)
        if self.inline:
            memory.copy_(torch.frombuffer(bytearray(self.inline), dtype=torch.uint8))
        return memory

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "places": {}}


def pack(thing: object, folder: Path, *, code: bool = False, known: Message | None = None) -> Message:
    """With `code`, functions that a module does not name travel too. Tensors that `known` holds do not travel again."""
    target = io.BytesIO()
    pickler = (_CodePickler if code else _Pickler)(target, known.places if known else {})
    pickler.dump(thing)
    size = sum(_padded(tensor) for tensor in pickler.tensors)
    if size <= SMALL:
        padded = (_bytes(tensor).numpy().tobytes().ljust(_padded(tensor), b"\0") for tensor in pickler.tensors)
        return Message(target.getvalue(), size, inline=b"".join(padded), places=pickler.places)
    handle, name = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            for tensor in pickler.tensors:
                # Written, not mapped: where there is no room that is an error and no signal, and no page is cleared.
                file.write(_bytes(tensor).numpy().data)
                file.seek(_padded(tensor) - tensor.numel() * tensor.element_size(), os.SEEK_CUR)
            file.truncate(size)
    except OSError as problem:
        os.unlink(name)
        raise PartitaError(
            f"{folder} has no room for {size >> 20} MB that processes exchange ({problem.strerror}). Make room, or let "
            "one process do the work (--workers 1)."
        ) from problem
    except BaseException:
        os.unlink(name)
        raise
    return Message(target.getvalue(), size, Path(name), places=pickler.places)


def unpack(message: Message, known: Tensor | None = None) -> Any:
    """What was packed. `known` is the memory of the message whose tensors did not travel again."""
    return _Unpickler(io.BytesIO(message.pickled), message.memory(), known).load()


def memory_folder() -> Path:
    """A new folder for messages: in memory where the system has a place for that, else among temporary files."""
    memory = Path("/dev/shm")
    roomy = memory.is_dir() and os.access(memory, os.W_OK) and _free(memory) > 1 << 30
    place = memory if roomy else Path(tempfile.gettempdir())
    _sweep(place)
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))


def claim(folder: Path) -> IO[str]:
    """A folder is in use as long as this file is open, by whoever inherited it too."""
    file = (folder / LOCK).open("w")
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


def _sweep(place: Path) -> None:
    """Takes away what processes left that were all killed at once, so that none could do it."""
    for lock in place.glob(f"{PREFIX}*/{LOCK}"):
        # Those in use, or of other users, cannot be locked.
        with suppress(OSError), lock.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent, ignore_errors=True)


def _free(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize


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
        if type(thing) is not Tensor:
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
        self._memories = {"own": own, "known": known}
        self._made: dict[tuple[object, ...], Tensor] = {}

    def persistent_load(self, key: Any) -> Tensor:
        if key not in self._made:
            where, offset, shape, dtype = key
            memory = self._memories[where]
            assert memory is not None, "a message refers to another one"
            count = torch.Size(shape).numel() * dtype.itemsize
            self._made[key] = memory[offset : offset + count].view(dtype).view(shape)
        return self._made[key]


def _padded(tensor: Tensor) -> int:
    size = tensor.numel() * tensor.element_size()
    return -(-size // ALIGNMENT) * ALIGNMENT


def _bytes(tensor: Tensor) -> Tensor:
    if not tensor.numel():
        return torch.empty(0, dtype=torch.uint8)
    flat = tensor.resolve_conj().resolve_neg().contiguous().reshape(-1)
    # A single number may claim any stride.
    return (flat if flat.stride(0) == 1 else flat.clone(memory_format=torch.contiguous_format)).view(torch.uint8)
