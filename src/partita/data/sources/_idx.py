"""The IDX format of MNIST and its successors: a type, the lengths of the dimensions, and bytes."""

import math
import struct

import numpy as np
import numpy.typing as npt

from ...errors import PartitaError
from ...formatting import amount
from ..pool import Pool, pool

Bytes = npt.NDArray[np.uint8]
Whole = npt.NDArray[np.int64]


def parse_idx(content: bytes, where: object, rank: int) -> Bytes:
    """The array of unsigned bytes that an IDX file holds."""
    start, shape = _head(content, where, rank, code=8, kind="bytes", width=1)
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def parse_whole_idx(content: bytes, where: object, rank: int) -> Whole:
    """The array of whole numbers of four bytes that an IDX file holds."""
    start, shape = _head(content, where, rank, code=12, kind="whole numbers", width=4)
    return np.frombuffer(content, dtype=">i4", offset=start).reshape(shape).astype(np.int64)


def _head(content: bytes, where: object, rank: int, *, code: int, kind: str, width: int) -> tuple[int, tuple[int, ...]]:
    """Where the values begin, and their shape."""
    start = 4 + 4 * rank
    if content[:4] != bytes((0, 0, code, rank)) or len(content) < start:
        raise PartitaError(f"{where} is not an IDX file of {kind} with {amount(rank, 'dimension')}.")
    shape = struct.unpack(f">{rank}I", content[4:start])
    right = width * math.prod(shape)
    if len(content) - start != right:
        raise PartitaError(
            f"{where} should hold {right} bytes for its shape {shape}, but it holds {len(content) - start}. "
            "Is it truncated? Get it again."
        )
    return start, shape


def idx_pool(
    name: str,
    parts: list[tuple[Bytes, Bytes]],
    *,
    classes: int,
    first_label: int = 0,
    transposed: bool = False,
    clients: Whole | None = None,
) -> Pool:
    """A pool of the images and labels of train and test."""
    for (images, labels), role in zip(parts, ("training", "test"), strict=True):
        if len(images) != len(labels):
            raise PartitaError(f"{name}: {len(images)} {role} images, but {len(labels)} labels. Are they of one set?")
    pixels = np.concatenate([images for images, _ in parts])
    numbers = np.concatenate([labels for _, labels in parts]).astype(np.int64) - first_label
    tested = np.arange(len(numbers)) >= len(parts[0][1])
    return pool(
        name,
        pixels.swapaxes(1, 2) if transposed else pixels,
        numbers,
        classes=classes,
        clients=clients,
        official_test=tested,
    )
