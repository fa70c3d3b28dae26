"""Stack Overflow by user, for the next word. Pillutla et al., 2022, https://arxiv.org/abs/2204.03809"""

from itertools import islice
from pathlib import Path

import numpy as np

from ...errors import PartitaError
from ..arrays import reading
from ..download import Remote
from ..pool import Pool
from ..source import source
from ..tables import rows_of
from ..text import text_pool
from ._examples import ask, find_database, read_examples
from ._named import locate, stored

# No checksum of it is published: the first download's is kept.
DATABASE = Remote(
    "stackoverflow/stackoverflow.sqlite.lzma",
    "https://storage.googleapis.com/tff-datasets-public/stackoverflow.sqlite.lzma",
)
LEAST_TRAINING, LEAST_TEST, MOST_TRAINING = 100, 10, 1000
"""Sequences of one user, as in the paper."""


@source
def stackoverflow(
    *, users: int = 1000, user_column: str = "user", text_column: str = "text", split_column: str = "split"
) -> Pool:
    """Stack Overflow by user, for the next word; of TensorFlow Federated's database as many users as asked for.

    From stackoverflow.jsonl or .csv with user, text and maybe split, whole; or from the database, which is large: of
    the users with at least 100 training and 10 test sequences the first by id, with 1000 training sequences at most.
    """
    found = stored("stackoverflow")
    if found is not None:
        return found
    forms = [f"stackoverflow.{form}{end}" for form in ("jsonl", "csv") for end in ("", ".gz")]
    path = locate("stackoverflow", *forms)
    if path is None:
        return _database(find_database("stackoverflow", DATABASE), users)
    return _table(path, user_column, text_column, split_column)


def _database(path: Path, users: int) -> Pool:
    if users < 1:
        raise PartitaError(f"users is {users}, but must be at least 1.")
    chosen = ask(
        path,
        "SELECT train.client_id FROM client_metadata AS train JOIN client_metadata AS test USING (client_id) "
        "WHERE train.split_name = 'train' AND train.num_examples >= ? "
        "AND test.split_name = 'test' AND test.num_examples >= ? ORDER BY train.client_id LIMIT ?",
        [LEAST_TRAINING, LEAST_TEST, users],
    )
    texts, owners, tested = [], [], []
    for (user,) in list(chosen):
        for split, most in (("train", MOST_TRAINING), ("test", None)):
            for _, (tokens,) in islice(read_examples(path, split, ["tokens"], user), most):
                with reading(f"{path}, a sequence of {user}", "text"):
                    texts += [bytes(each).decode() for each in tokens]
                owners += [user] * len(tokens)
                tested += [split == "test"] * len(tokens)
    if not texts:
        raise PartitaError(f"{path}: no user has {LEAST_TRAINING} training and {LEAST_TEST} test sequences.")
    return text_pool("stackoverflow", texts, None, clients=np.array(owners), official_test=np.array(tested))


def _table(path: Path, user_column: str, text_column: str, split_column: str) -> Pool:
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
