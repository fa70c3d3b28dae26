"""How are named tensors stored? As safetensors, never pickled, with a checksum beside them."""

import hashlib
import json

from safetensors.torch import load, save

from ..tensors import Tensors


def pack(tensors: Tensors) -> bytes:
    # Safetensors refuses tensors that share memory; views and aliases become tensors of their own.
    alone = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    # Safetensors hands tensors out in a random order, in which sums over them would have other bits.
    return save(alone, {"order": json.dumps(list(tensors))})


def unpack(blob: bytes) -> Tensors:
    tensors: Tensors = load(blob)
    header = json.loads(blob[8 : 8 + int.from_bytes(blob[:8], "little")])
    return {name: tensors[name] for name in json.loads(header["__metadata__"]["order"])}


def checksum(blob: bytes) -> str:
    """BLAKE2b of 16 bytes. A database notices damage to its own structure, but not within what it holds."""
    return hashlib.blake2b(blob, digest_size=16).hexdigest()


def checked(blob: object, expected: object) -> bytes:
    if not isinstance(blob, bytes) or checksum(blob) != expected:
        raise ValueError("stored tensors do not fit their checksum")
    return blob
