"""The binary form of CIFAR-10 and CIFAR-100: for each image one or two labels and 3 x 32 x 32 bytes."""

from collections.abc import Sequence

import numpy as np

from ...errors import PartitaError
from ..download import Remote, obtain
from ..pool import Pool, pool
from ._files import read_bytes, read_tar
from ._named import locate

SHAPE = (3, 32, 32)


def read_cifar(
    name: str,
    remote: Remote,
    folder: str,
    *,
    train: Sequence[str],
    test: Sequence[str],
    labels: int,
    label: int,
    classes: int,
) -> Pool:
    """From the unpacked folder, or from the archive; `label` is which of the `labels` bytes of an image counts."""
    place = locate(name, folder, remote.name) or obtain([remote])[0]
    if place.is_dir():
        contents = {each: read_bytes(place / each) for each in (*train, *test)}
    else:
        members = read_tar(place, [f"{folder}/{each}" for each in (*train, *test)])
        contents = {each: members[f"{folder}/{each}"] for each in (*train, *test)}
    width = labels + 3072
    for each, content in contents.items():
        if not content or len(content) % width:
            raise PartitaError(
                f"{place}: {each} has {len(content)} bytes, which is no multiple of the {width} of an image. Is it "
                "truncated, or of the other CIFAR? Get it again."
            )
    rows = np.frombuffer(b"".join(contents.values()), dtype=np.uint8).reshape(-1, width)
    count = sum(len(contents[each]) for each in train) // width
    return pool(
        name,
        rows[:, labels:].reshape(-1, *SHAPE),
        rows[:, label],
        classes=classes,
        official_test=np.arange(len(rows)) >= count,
    )
