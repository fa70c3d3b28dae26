"""How are named tensors stored? As safetensors, never pickled, in parts that each have a checksum."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..tensors import Tensors

PART = 1 << 28
"""Bytes of a part. SQLite holds at most 10^9 in one value."""


def pack(tensors: "Tensors") -> bytes:
    from safetensors.torch import save

    # Safetensors refuses tensors that share memory; views and aliases become tensors of their own.
    alone = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    # Safetensors writes and reads in an order of its own; sums over tensors in another order have other bits.
    return save(alone, {"order": json.dumps(list(tensors))})


def unpack(blob: bytes) -> "Tensors":
    from safetensors.torch import load

    tensors: Tensors = load(blob)
    header = json.loads(blob[8 : 8 + int.from_bytes(blob[:8], "little")])
    return {name: tensors[name] for name in json.loads(header["__metadata__"]["order"])}


def parts_of(blob: bytes) -> Iterator[tuple[int, memoryview, str]]:
    """Number, bytes and checksum of each part; there is at least one."""
    whole = memoryview(blob)
    for number, at in enumerate(range(0, max(len(whole), 1), PART)):
        part = whole[at : at + PART]
        yield number, part, checksum(part)


def joined(parts: Sequence[tuple[int, object, object]], expected: int, what: str) -> bytes:
    """The bytes of all parts, each of which fits its checksum."""
    if [number for number, _, _ in parts] != list(range(expected)):
        raise ValueError(f"{what} has {len(parts)} parts of {expected}")
    return b"".join(checked(part, stored, what) for _, part, stored in parts)


def checksum(blob: bytes | memoryview) -> str:
    """BLAKE2b of 16 bytes. A database notices damage to its own structure, but not within what it holds."""
    return hashlib.blake2b(blob, digest_size=16).hexdigest()


def checked(blob: object, expected: object, what: str) -> bytes:
    if not isinstance(blob, bytes) or checksum(blob) != expected:
        raise ValueError(f"{what} does not fit its checksum")
    return blob
