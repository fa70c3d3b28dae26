"""How do texts become numbers? Words once, and a vocabulary of the training part alone."""

import re
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .errors import PartitaError
from .pool import Array, Kind, Pool, Texts, number_clients

PAD, UNKNOWN, BEGIN, END = range(4)
"""Numbers that are no words: filling, a word outside the vocabulary, the begin and the end of a text."""
SPECIAL = 4

_WORD = re.compile(r"[a-z0-9]+|[.,!?()']")


def words_of(text: str) -> list[str]:
    """Lower-case words and punctuation marks."""
    return _WORD.findall(text.lower())


def tokenize(texts: Iterable[str], *, characters: bool = False) -> Texts:
    """Number all words (or characters) in the order in which they first occur."""
    numbers: dict[str, int] = {}
    tokens: list[int] = []
    bounds = [0]
    for text in texts:
        tokens += [numbers.setdefault(word, len(numbers)) for word in (text if characters else words_of(text))]
        bounds.append(len(tokens))
    return Texts(np.array(tokens, dtype=np.int32), np.array(bounds, dtype=np.int64), tuple(numbers))


def encode(
    texts: Texts,
    targets: Tensor,
    kind: Kind,
    training: npt.NDArray[np.int64],
    vocabulary: int | None,
    length: int | None,
) -> tuple[Tensor, Tensor, int]:
    """Inputs, targets and the size of the vocabulary.

    Words that the training rows do not hold, or beyond the most frequent, are UNKNOWN. For next-word prediction the
    inputs are BEGIN and the words, the targets the words and END, cut or filled to `length`.
    """
    lengths = np.diff(texts.bounds)
    wanted = length or (20 if kind == "next_word" else 200)
    lookup = _lookup(texts, training, vocabulary)
    rows = np.full((len(texts), wanted), PAD, dtype=np.int64)
    kept = np.minimum(lengths, wanted)
    column = np.arange(wanted)
    inside = column < kept[:, None]
    at = (texts.bounds[:-1, None] + column)[inside]
    rows[inside] = lookup[texts.tokens[at]]
    words = int(lookup.max(initial=SPECIAL - 1)) + 1
    if kind != "next_word":
        return torch.from_numpy(rows), targets, words
    shifted = np.concatenate([np.full((len(rows), 1), BEGIN), rows[:, :-1]], axis=1)
    ended = rows.copy()
    short = np.flatnonzero(lengths < wanted)
    ended[short, lengths[short]] = END
    return torch.from_numpy(shifted), torch.from_numpy(ended), words


def _lookup(texts: Texts, training: npt.NDArray[np.int64], vocabulary: int | None) -> npt.NDArray[np.int64]:
    """The number of each word: the most frequent of the training rows first."""
    if vocabulary is not None and vocabulary < 1:
        raise PartitaError(f"A vocabulary of {vocabulary} words: at least 1 is needed.")
    marks = np.zeros(len(texts), dtype=bool)
    marks[training] = True
    in_training = np.repeat(marks, np.diff(texts.bounds))
    counts = np.bincount(texts.tokens[in_training], minlength=len(texts.words))
    order = np.argsort(-counts, kind="stable")[:vocabulary]
    order = order[counts[order] > 0]
    lookup = np.full(len(texts.words), UNKNOWN, dtype=np.int64)
    lookup[order] = SPECIAL + np.arange(len(order))
    return lookup


def text_pool(
    name: str,
    texts: Sequence[str],
    targets: Array | None,
    *,
    kind: Kind = "classification",
    characters: bool = False,
    clients: Array | None = None,
    official_test: Array | None = None,
    classes: int | None = None,
) -> Pool:
    """A pool of texts, by words or by characters; without targets the next word is to be predicted."""
    labels = (
        torch.zeros(len(texts), dtype=torch.int64) if targets is None else torch.from_numpy(targets.astype(np.int64))
    )
    owners, names = number_clients(clients)
    return Pool(
        name,
        tokenize(texts, characters=characters),
        labels,
        classes or (int(labels.max()) + 1 if len(labels) else 0),
        kind="next_word" if targets is None else kind,
        clients=owners,
        client_names=names,
        official_test=None if official_test is None else torch.from_numpy(official_test.astype(bool)),
    )
