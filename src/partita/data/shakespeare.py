"""Shakespeare's plays by role. Caldas et al., 2018 (LEAF), https://arxiv.org/abs/1812.01097"""

from dataclasses import replace

import numpy as np
import torch

from ..errors import PartitaError
from ..pool import Pool, Texts
from ..text import text_pool
from ._leaf import User, leaf_folder, read_leaf
from ._named import stored


def shakespeare(*, window: int = 80) -> Pool:
    """Shakespeare's plays by role, for the next character; speeches are cut into pieces of `window` characters.

    From shakespeare.npz or LEAF's JSON files, whose overlapping samples are put together to running text again. Set
    the length of `federate` to that of the pieces.
    """
    if window < 2:
        raise PartitaError(f"Pieces of {window} characters: at least 2 are needed to predict one from another.")
    found = stored("shakespeare", text="characters") or _read()
    # Many say "Ay, my lord.": equal rows are not the same sample.
    return replace(_cut(found, window), rows_identify=False, length=window)


def _read() -> Pool:
    users, divided = read_leaf(leaf_folder("shakespeare"))
    texts = [(text, user) for user in users for text in _running(user)]
    return text_pool(
        "shakespeare",
        [text for text, _ in texts],
        None,
        characters=True,
        clients=np.array([user.name for _, user in texts]),
        official_test=np.array([user.test for _, user in texts]) if divided else None,
    )


def _running(user: User) -> list[str]:
    """Each sample is some characters and the next one; where a sample goes on after another, they are one text."""
    texts: list[str] = []
    for row, (before, after) in enumerate(zip(user.inputs, user.targets, strict=True)):
        if not isinstance(before, str) or not isinstance(after, str):
            raise PartitaError(f"{user.where}: row {row} is not a text and its next character.")
        if texts and before and texts[-1].endswith(before):
            texts[-1] += after
        else:
            texts.append(before + after)
    return texts


def _cut(pool: Pool, window: int) -> Pool:
    if not isinstance(pool.inputs, Texts) or pool.kind != "next_word":
        raise PartitaError("shakespeare.npz must hold speeches as text x, without y.")
    texts = pool.inputs
    pieces = np.maximum(-(-np.diff(texts.bounds) // window), 1)
    source = np.repeat(np.arange(len(texts)), pieces)
    within = np.arange(len(source)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    bounds = np.append(texts.bounds[source] + within * window, texts.bounds[-1])
    rows = torch.from_numpy(source)
    return replace(
        pool,
        inputs=Texts(texts.tokens, bounds, texts.words),
        targets=pool.targets[rows],
        clients=None if pool.clients is None else pool.clients[rows],
        official_test=None if pool.official_test is None else pool.official_test[rows],
    )
