"""How is a large state kept without a second copy of it in memory? In parts: what it holds, then its bytes."""

import json
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from ..parsing import parse_json
from ..tensors import Tensors

PART = 1 << 24
"""Bytes of a part at most."""
TYPES = {
    str(kind).removeprefix("torch."): kind
    for kind in (
        *(torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128),
        *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool),
    )
}


def written(tensors: Tensors) -> Iterator[bytes]:
    """The parts of a state: first names, types and shapes in their order, then the bytes of each tensor."""
    kinds = {name: str(tensor.dtype).removeprefix("torch.") for name, tensor in tensors.items()}
    yield json.dumps([(name, kinds[name], list(tensor.shape)) for name, tensor in tensors.items()]).encode()
    for tensor in tensors.values():
        content = _bytes(tensor.detach().resolve_conj().resolve_neg().contiguous())
        for piece in torch.split(content, PART) if len(content) else ():
            yield piece.numpy().tobytes()


def read(parts: Iterable[bytes]) -> Tensors:
    """What `written` was given, each tensor in memory of its own: where one begins decides the last bits of sums."""
    coming, found = iter(parts), Tensors()
    for name, kind, shape in parse_json(next(coming, b"")):
        if kind not in TYPES:
            raise ValueError(f"{name} is of the unknown type {kind}")
        found[name] = torch.empty(shape, dtype=TYPES[kind])
        content = _bytes(found[name])
        for piece in torch.split(content, PART) if len(content) else ():
            part = next(coming, b"")
            if len(part) != len(piece):
                raise ValueError(f"{name} has a part of {len(part)} bytes, and it must have {len(piece)}")
            piece.numpy().data[:] = part
    if next(coming, None) is not None:
        raise ValueError("there is more than its first part says")
    return found


def _bytes(tensor: Tensor) -> Tensor:
    # A tensor of one entry may have any stride, and still be contiguous.
    return tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8)
