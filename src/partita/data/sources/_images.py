"""How do pictures become numbers? Decoded by Pillow, of one size, and normalised."""

import io
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from torch import Tensor

from ...errors import PartitaError, unknown
from ...extras import optional
from ..arrays import reading
from ..pool import Pool, pool
from ._files import Tree, plain

Gray = Literal["half", "none"]
Colour = Literal["half", "imagenet", "none"]
Statistics = tuple[Sequence[float], Sequence[float]]

HALF: Statistics = ((0.5,), (0.5,))
IMAGENET: Statistics = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def normalize(images: Pool, choice: str, published: Statistics | None = None) -> Pool:
    """A pool of images whose channels are normalised: all by mean and deviation 0.5, as ImageNet, or as published."""
    known: dict[str, Statistics | None] = {"half": HALF, "imagenet": IMAGENET, "none": None}
    if published:
        known["published"] = published
    if choice not in known:
        raise PartitaError(unknown("normalization", choice, known))
    statistics = known[choice]
    if statistics is None or not isinstance(images.inputs, Tensor):
        return images
    channels = images.inputs.shape[1]
    mean, std = (tuple(each) * (channels if len(each) == 1 else 1) for each in statistics)
    return images.normalized(mean, std)


def decode_all(files: Sequence[tuple[str, Callable[[], bytes]]], size: int) -> npt.NDArray[np.uint8]:
    """Pictures (by name, and how to read them) as (count, 3, size, size)."""
    if size < 1:
        raise PartitaError(f"size is {size}, but must be at least 1 pixel.")
    library = optional("PIL.Image", "pillow")
    pixels = np.empty((len(files), 3, size, size), dtype=np.uint8)
    for at, (name, read) in enumerate(files):
        content = read()
        with reading(name, "an image"):
            pixels[at] = _decoded(library, content, size)
    return pixels


def _decoded(library: Any, content: bytes, size: int) -> npt.NDArray[np.uint8]:
    try:
        with library.open(io.BytesIO(content)) as image:
            colours = image.convert("RGB")
            if colours.size != (size, size):
                colours = colours.resize((size, size), library.Resampling.BILINEAR)
            return np.asarray(colours).transpose(2, 0, 1)
    except Exception as problem:
        # Pillow raises many kinds, one of them for pictures that would fill the memory.
        raise ValueError(str(problem) or type(problem).__name__) from problem


def read_pictures(
    name: str,
    path: Path,
    rows: Sequence[tuple[str, str, int]],
    *,
    tree: Tree,
    folders: Sequence[str],
    file: Callable[[str], str],
    classes: int,
    size: int,
    sizes: tuple[int, int | None],
) -> Pool:
    """A pool of the pictures that a table lists as (client, picture, label), of clients with `least` to `most` rows.

    `file` makes a picture's path of its name in the table; the pictures are in the first of the tree's `folders` (each
    ending in / or empty) that has one.
    """
    least, most = sizes
    counts = Counter(client for client, _, _ in rows)
    kept = [row for row in rows if least <= counts[row[0]] and (most is None or counts[row[0]] <= most)]
    if not kept:
        raise PartitaError(
            f"{path}: no client has {least} to {most or 'any number of'} pictures; the numbers are "
            f"{min(counts.values(), default=0)} to {max(counts.values(), default=0)}."
        )
    names = sorted({plain(file(picture), path) for _, picture, _ in kept})
    folder = next((each for each in folders if tree.has(each + names[0])), folders[0])
    pixels = decode_all([(f"{tree.path}/{folder}{each}", partial(tree.read, folder + each)) for each in names], size)
    numbers = {each: number for number, each in enumerate(names)}
    order = np.array([numbers[file(picture)] for _, picture, _ in kept])
    return pool(
        name,
        # A picture is decoded once, however many rows it has.
        pixels if len(order) == len(names) and (order == np.arange(len(names))).all() else pixels[order],
        np.array([label for _, _, label in kept]),
        classes=classes,
        clients=np.array([client for client, _, _ in kept]),
    )
