"""The IDX format of MNIST and its successors: a type, the lengths of the dimensions, and bytes."""

import math
import struct

import numpy as np
import numpy.typing as npt

from ..errors import PartitaError
from ..pool import Pool, pool

Bytes = npt.NDArray[np.uint8]


def parse_idx(content: bytes, where: object, rank: int) -> Bytes:
    """The array of unsigned bytes that an IDX file holds."""
    start = 4 + 4 * rank
    if content[:4] != bytes((0, 0, 8, rank)) or len(content) < start:
        raise PartitaError(f"{where} is not an IDX file of bytes with {rank} dimensions.")
    shape = struct.unpack(f">{rank}I", content[4:start])
    if len(content) - start != math.prod(shape):
        raise PartitaError(
            f"{where} should hold {math.prod(shape)} bytes for its shape {shape}, but it holds {len(content) - start}. "
            "Is it truncated? Get it again."
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def idx_pool(
    name: str,
    parts: list[tuple[Bytes, Bytes]],
    *,
    classes: int,
    first_label: int = 0,
    transposed: bool = False,
) -> Pool:
    """A pool of the images and labels of train and test."""
    for (images, labels), role in zip(parts, ("training", "test"), strict=True):
        if len(images) != len(labels):
            raise PartitaError(f"{name}: {len(images)} {role} images, but {len(labels)} labels. Are they of one set?")
    pixels = np.concatenate([images for images, _ in parts])
    numbers = np.concatenate([labels for _, labels in parts]).astype(np.int64) - first_label
    tested = np.arange(len(numbers)) >= len(parts[0][1])
    return pool(name, pixels.swapaxes(1, 2) if transposed else pixels, numbers, classes=classes, official_test=tested)
