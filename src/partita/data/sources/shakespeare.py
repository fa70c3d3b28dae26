"""Shakespeare's plays by role. Caldas et al., 2018 (LEAF), https://arxiv.org/abs/1812.01097"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from ...errors import PartitaError
from ..arrays import reading
from ..download import Remote
from ..pool import Pool, Texts
from ..source import source
from ..text import text_pool
from ._examples import find_database, read_examples
from ._leaf import User, leaf_folder, read_leaf
from ._named import stored

# TensorFlow Federated serves LEAF's speeches by role; FedJAX's test of its downloads has size and SHA-256.
DATABASE = Remote(
    "shakespeare/shakespeare.sqlite.lzma",
    "https://storage.googleapis.com/tff-datasets-public/shakespeare.sqlite.lzma",
    sha256="d3d11fceb9e105439ac6f4d52af6efafed5a2a1e1eb24c5bd2dd54ced242f5c4",
    size=1_329_828,
)


@source
def shakespeare(*, window: int = 80) -> Pool:
    """Shakespeare's plays by role, for the next character; speeches are cut into pieces of `window` characters.

    From shakespeare.npz, from LEAF's JSON files, whose overlapping samples are put together to running text again, or
    from TensorFlow Federated's database of speeches. Set the length of `federate` to that of the pieces.
    """
    if window < 2:
        raise PartitaError(f"window is {window}, but must be at least 2 characters, to predict one from another.")
    found = stored("shakespeare", text="characters") or _read()
    # Many say "Ay, my lord.": equal rows are not the same sample.
    return replace(_cut(found, window), rows_identify=False, length=window)


def _read() -> Pool:
    folder = leaf_folder("shakespeare")
    if folder is None:
        return _joined(_speeches(find_database("shakespeare", DATABASE)), divided=True)
    users, divided = read_leaf(folder)
    return _joined([(text, user.name, user.test) for user in users for text in _running(user)], divided)


def _speeches(path: Path) -> list[tuple[str, str, bool]]:
    speeches = []
    for split, test in (("train", False), ("test", True)):
        for role, (snippets,) in read_examples(path, split, ["snippets"]):
            with reading(f"{path}, a speech of {role}", "text"):
                speeches += [(bytes(snippet).decode(), role, test) for snippet in snippets]
    return speeches


def _joined(speeches: list[tuple[str, str, bool]], divided: bool) -> Pool:
    """A pool of text, role and whether it is for testing."""
    return text_pool(
        "shakespeare",
        [text for text, _, _ in speeches],
        None,
        characters=True,
        clients=np.array([role for _, role, _ in speeches]),
        official_test=np.array([test for _, _, test in speeches]) if divided else None,
    )


def _running(user: User) -> list[str]:
    """Each sample is some characters and the next one; where a sample continues another, they are one text."""
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
        inputs=Texts(texts.tokens, bounds, texts.words, texts.characters),
        targets=pool.targets[rows],
        clients=None if pool.clients is None else pool.clients[rows],
        official_test=None if pool.official_test is None else pool.official_test[rows],
    )
