"""Stack Overflow by user, for the next word. Pillutla et al., 2022, https://arxiv.org/abs/2204.03809"""

import numpy as np

from ..errors import PartitaError
from ..pool import Pool
from ..text import text_pool
from ._named import absent, locate, stored
from ._tables import rows_of


def stackoverflow(*, user_column: str = "user", text_column: str = "text", split_column: str = "split") -> Pool:
    """Stack Overflow by user, for the next word: from stackoverflow.jsonl or .csv with user, text and maybe split."""
    found = stored("stackoverflow")
    if found is not None:
        return found
    path = locate("stackoverflow", *(f"stackoverflow.{form}{end}" for form in ("jsonl", "csv") for end in ("", ".gz")))
    if path is None:
        raise absent("stackoverflow", "stackoverflow.jsonl (or .csv) with columns user, text and maybe split")
    texts, users, splits, lines = [], [], [], []
    for line, (user, text, split) in rows_of(path, [user_column, text_column], [split_column]):
        if split not in ("", "train", "test"):
            raise PartitaError(
                f"{path}, line {line}: the split {split!r} is neither train nor test. Leave such rows out."
            )
        texts.append(text)
        users.append(user)
        splits.append(split)
        lines.append(line)
    if any(splits) and not all(splits):
        raise PartitaError(f"{path}, line {lines[splits.index('')]}: no split, but other lines have one.")
    return text_pool(
        "stackoverflow",
        texts,
        None,
        clients=np.array(users),
        official_test=np.array([split == "test" for split in splits]) if any(splits) else None,
    )
