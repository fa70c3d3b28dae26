"""How do texts become numbers? Words once, and a vocabulary of the training part alone."""

import hashlib
import json
import os
import re
import sys
import tempfile
import unicodedata
from array import array
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..core.objectives import BEGIN, END, PAD, SPECIAL, UNKNOWN, Problem
from ..errors import PartitaError
from .download import cache_folder
from .pool import Array, Pool, Texts, pool_of

TOKENIZER = 2
"""Increased whenever words_of or tokenize change, so that older files in the cache are not used."""
WORTH_CACHING = 100_000
"""Characters; fewer are quicker to tokenise than to look up."""

_ASCII_WORD = re.compile(r"[a-z0-9]+|[.,!?()']")


def words_of(text: str) -> list[str]:
    """Lower-case words of any script, and punctuation marks."""
    lower = text.lower()
    if lower.isascii():
        return _ASCII_WORD.findall(lower)
    # An accent may be a character of its own, or one with its letter: they are the same word.
    return _unicode_word().findall(unicodedata.normalize("NFC", lower))


@cache
def _unicode_word() -> re.Pattern[str]:
    """Letters and digits of any script, with the marks (accents, vowel signs) that belong to them."""
    marks = "".join(chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code))[0] == "M")
    return re.compile(rf"[^\W_](?:[^\W_]|[{marks}])*|[.,!?()']")


def tokenize(texts: Iterable[str], *, characters: bool = False) -> Texts:
    """Number all words (or characters) in the order in which they first occur."""
    numbers: dict[str, int] = {}
    tokens = array("i")
    bounds = array("q", [0])
    for text in texts:
        tokens.extend([numbers.setdefault(word, len(numbers)) for word in (text if characters else words_of(text))])
        bounds.append(len(tokens))
    return Texts(np.array(tokens, dtype=np.int32), np.array(bounds, dtype=np.int64), tuple(numbers), characters)


def tokenize_once(texts: Sequence[str], *, characters: bool = False) -> Texts:
    """Like tokenize, with a cache on disk; a damaged file there is replaced."""
    if sum(map(len, texts)) < WORTH_CACHING:
        return tokenize(texts, characters=characters)
    path = cache_folder() / "tokens" / f"{_key(texts, characters)}.npz"
    found = _read_tokens(path, len(texts))
    if found is None:
        found = tokenize(texts, characters=characters)
        # A cache that cannot be written is no reason to stop.
        with suppress(OSError):
            _write_tokens(path, found)
    return replace(found, characters=characters)


def _key(texts: Sequence[str], characters: bool) -> str:
    digest = hashlib.sha256(f"{TOKENIZER} {characters}".encode())
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        # The length keeps ["ab", "c"] and ["a", "bc"] apart.
        digest.update(b"%d " % len(content) + content)
    return digest.hexdigest()


def _write_tokens(path: Path, texts: Texts) -> None:
    """Write under a temporary name first, so that no other process sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # As JSON, since numpy's arrays of text lose zero characters.
    words = np.frombuffer(json.dumps(list(texts.words)).encode(), dtype=np.uint8)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, tokens=texts.tokens, bounds=texts.bounds, words=words)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _read_tokens(path: Path, count: int) -> Texts | None:
    """What the cache holds, or None if the file is missing, damaged or inconsistent."""
    # A damaged file can raise almost anything; all of it means that it is of no use.
    with suppress(Exception):
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            tokens, bounds, words = file["tokens"], file["bounds"], json.loads(file["words"].tobytes())
        steps = np.diff(bounds)
        whole = len(steps) == count and bounds[0] == 0 and bounds[-1] == len(tokens) and (steps >= 0).all()
        if whole and (tokens >= 0).all() and (tokens < len(words)).all():
            return Texts(tokens.astype(np.int32), bounds.astype(np.int64), tuple(words))
    return None


def encode(
    texts: Texts,
    targets: Tensor,
    kind: Problem,
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
        raise PartitaError(f"vocabulary is {vocabulary}, but must be at least 1.")
    marks = np.zeros(len(texts), dtype=bool)
    marks[training] = True
    in_training = np.repeat(marks, np.diff(texts.bounds))
    counts = np.bincount(texts.tokens[in_training], minlength=len(texts.words))
    order = np.argsort(-counts, kind="stable")[:vocabulary]
    order = order[counts[order] > 0]
    lookup = np.full(len(texts.words), UNKNOWN, dtype=np.int64)
    lookup[order] = SPECIAL + np.arange(len(order))
    return lookup


def vocabulary_of(texts: Texts, training: npt.NDArray[np.int64], vocabulary: int) -> list[str]:
    """The words that have a number, the first of which is SPECIAL, in the order of their numbers."""
    lookup = _lookup(texts, training, vocabulary)
    known = np.flatnonzero(lookup >= SPECIAL)
    return [texts.words[at] for at in known[np.argsort(lookup[known])].tolist()]


def text_pool(
    name: str,
    texts: Sequence[str],
    targets: Array | None,
    *,
    kind: Problem = "classification",
    characters: bool = False,
    clients: Array | None = None,
    official_test: Array | None = None,
    classes: int | None = None,
) -> Pool:
    """A pool of texts, by words or by characters; without targets the next word is to be predicted."""
    if targets is None:
        kind, targets = "next_word", np.zeros(len(texts), dtype=np.int64)
    tokenized = tokenize_once(texts, characters=characters)
    return pool_of(name, tokenized, targets, kind, classes=classes, clients=clients, official_test=official_test)
