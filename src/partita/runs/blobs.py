"""How are named tensors stored? As safetensors, never as pickles, in parts that each have a checksum."""

import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ..parsing import parse_json

if TYPE_CHECKING:
    from ..tensors import Tensors

MOST_UNPACKED, MOST_RATIO = 1 << 26, 100
"""Bytes that anything may unpack to, and how many times its own size more may."""
PART = 1 << 28
"""Bytes of a part. SQLite limits one value to 10^9 bytes."""


def pack(tensors: "Tensors") -> bytes:
    from safetensors.numpy import save

    # Safetensors does not keep the order, and a sum over tensors in another order has other bits.
    order = {"order": json.dumps(list(tensors))}
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        # A third of the time of torch's form, which looks for tensors that share memory.
        return save({name: tensor.numpy() for name, tensor in plain.items()}, order)
    except TypeError:
        return _pack_any(plain, order)


def _pack_any(tensors: "Tensors", order: dict[str, str]) -> bytes:
    """The same for types that NumPy does not have, such as bfloat16."""
    from safetensors.torch import save

    # Safetensors refuses tensors that share memory, so views and aliases are copied.
    return save({name: tensor.clone() for name, tensor in tensors.items()}, order)


def unpack(blob: bytes) -> "Tensors":
    from safetensors.torch import load

    tensors: Tensors = load(blob)
    header = parse_json(blob[8 : 8 + int.from_bytes(blob[:8], "little")])
    return {name: tensors[name] for name in parse_json(header["__metadata__"]["order"])}


def parts_of(blob: bytes) -> Iterator[tuple[int, memoryview, str]]:
    """The number, bytes and checksum of each part; there is at least one part."""
    whole = memoryview(blob)
    for number, at in enumerate(range(0, max(len(whole), 1), PART)):
        part = whole[at : at + PART]
        yield number, part, checksum(part)


def joined(parts: Sequence[tuple[int, object, object]], expected: int, what: str) -> bytes:
    """The bytes of all parts together, after checking each part's checksum."""
    if [number for number, _, _ in parts] != list(range(expected)):
        raise ValueError(f"{what} has {len(parts)} of {expected} parts")
    return b"".join(checked(part, stored, what) for _, part, stored in parts)


def compressed(text: str) -> bytes:
    return zlib.compress(text.encode())


def decompressed(blob: bytes) -> bytes:
    """The decompressed bytes; an error if they would fill the memory."""
    reader = zlib.decompressobj()
    most = max(MOST_UNPACKED, MOST_RATIO * len(blob))
    try:
        found = reader.decompress(blob, most)
    except zlib.error as problem:
        raise ValueError(str(problem)) from problem
    if reader.unconsumed_tail:
        raise ValueError(f"{len(blob)} bytes unpack to more than {most}")
    return found


def checksum(blob: bytes | memoryview) -> str:
    """A 16-byte BLAKE2b hash. SQLite detects damage to its structure, but not to the values it holds."""
    return hashlib.blake2b(blob, digest_size=16).hexdigest()


def checked(blob: object, expected: object, what: str) -> bytes:
    if not isinstance(blob, bytes) or checksum(blob) != expected:
        raise ValueError(f"{what} does not match its checksum")
    return blob


def checksum_of_rows(tables: Iterable[Sequence[Sequence[object]]]) -> str:
    """Rows are numbers and texts; anything else is damage, and has another checksum."""
    return checksum(json.dumps(list(tables), default=repr).encode())
