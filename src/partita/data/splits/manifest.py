"""A division that was written down."""

from pathlib import Path

import numpy as np

from .. import manifests
from ..pool import Pool
from ..split import Assign, Assignment, Rows, Share, splitting


@splitting
def manifest(*, path: str) -> Assign:
    """Rows, roles and newcomers as in a manifest file, for the same data."""

    def assign(pool: Pool, draw: np.random.RandomState) -> Assignment:
        body = manifests.read(Path(path), pool)
        shares = [
            Share(_rows(client["train"]), _rows(client["test"]), client["name"], validation=_rows(client["validation"]))
            for client in body["clients"]
        ]
        return Assignment(shares, (f"from {Path(path).name}",), frozenset(body["newcomers"]))

    return assign


def _rows(numbers: list[int]) -> Rows:
    return np.array(numbers, dtype=np.int64)
