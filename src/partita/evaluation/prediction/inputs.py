"""What may a model be asked? Inputs of a shape and a type, and how they are prepared for the network."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ...core.objectives import BEGIN, END, PAD, SPECIAL, UNKNOWN, Problem
from ...core.samples import AS_STORED, Preparation, Samples
from ...data.datasets import array_of, texts_of
from ...data.federation import Federation
from ...data.pool import Texts
from ...data.text import vocabulary_of, words_of
from ...errors import PartitaError

Type = Literal["bytes", "numbers", "indices"]
"""Bytes (images) are scaled to 0..1; indices number things, such as words or films."""


@dataclass(frozen=True)
class Words:
    """How a text becomes numbers: its words, or its characters, by their place in the vocabulary."""

    vocabulary: Sequence[str]
    characters: bool = False

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: SPECIAL + place for place, word in enumerate(self.vocabulary)}

    def encode(self, texts: Sequence[str], length: int, *, next_word: bool) -> Tensor:
        """A row of `length` numbers for each text, filled up with PAD.

        Where the next word is to be predicted, the row begins with BEGIN, and a text that is too long loses its first
        words; elsewhere it loses its last ones.
        """
        rows = torch.full((len(texts), length), PAD, dtype=torch.int64)
        for row, text in zip(rows, texts, strict=True):
            words = list(text) if self.characters else words_of(text)
            numbers = [self._numbers.get(word, UNKNOWN) for word in words]
            if next_word:
                numbers = [BEGIN, *(numbers[-(length - 1) :] if length > 1 else [])]
            kept = numbers[:length]
            row[: len(kept)] = torch.tensor(kept, dtype=torch.int64)
        return rows

    def successors(self, texts: Sequence[str], length: int) -> Samples:
        """Texts to learn the next word from, as data hold them: BEGIN and the words, and the words and END."""
        words = self.encode([*texts], length, next_word=False)
        targets = words.clone()
        counts = (words != PAD).sum(1)
        short = torch.nonzero(counts < length).squeeze(1)
        targets[short, counts[short]] = END
        return Samples(torch.cat([torch.full((len(words), 1), BEGIN), words[:, :-1]], 1), targets)


@dataclass(frozen=True, eq=False)
class Inputs:
    """The signature of a model's inputs, and their preparation."""

    shape: tuple[int, ...]
    """The shape of one input, without the dimension of the batch."""
    type: Type
    dtype: torch.dtype
    """The type of prepared inputs."""
    preparation: Preparation = AS_STORED
    below: int | None = None
    """Indices are smaller than this, where it is known."""
    words: Words | None = None
    """How texts become indices, where the inputs are texts."""
    kind: Problem = "classification"

    @classmethod
    def of(cls, data: Federation) -> "Inputs":
        stored = data.samples.stored
        _, dtype, _, _ = data.samples.kind
        kind: Type = "bytes" if stored.dtype == torch.uint8 else "numbers" if dtype.is_floating_point else "indices"
        below = data.facts.get("vocabulary", data.facts.get("items")) if kind == "indices" else None
        preparation = data.samples.preparation
        return cls(
            tuple(stored.shape[1:]),
            kind,
            dtype,
            Preparation(preparation.mean, preparation.std),
            below,
            _words_of(data),
            data.kind,
        )

    def __call__(self, given: Any) -> Tensor:
        """Prepared inputs, from arrays, tensors or lists as the data hold them, or from texts."""
        texts = texts_of(given)
        if texts is not None:
            if self.words is None:
                raise PartitaError(f"The model takes {self}, not texts.")
            return self.words.encode(texts, self.shape[0], next_word=self.kind == "next_word")
        return self.preparation(self._stored(given))

    def _stored(self, given: Any) -> Tensor:
        values = array_of(given, "The input")
        if values.dtype.kind not in "biuf":
            raise PartitaError(f"The model takes {self}, not values of type {values.dtype}.")
        if self.type == "bytes" and values.ndim == 1 + len(self.shape) and values.shape[1:] != self.shape:
            # As images are kept in files: with the channels last.
            last = (*self.shape[1:], self.shape[0])
            values = np.moveaxis(values, -1, 1) if values.shape[1:] == last else values
        if self.type == "bytes" and self.shape[0] == 1 and values.shape[1:] == self.shape[1:]:
            values = values[:, None]
        if values.ndim == 2 and len(self.shape) > 1 and values.shape[1] == math.prod(self.shape):
            # As a table has them: all numbers of an input in one row.
            values = values.reshape(len(values), *self.shape)
        if values.ndim == 0 or values.shape[1:] != self.shape:
            raise PartitaError(
                f"The model takes {self}; these have shape {values.shape}. The first dimension counts the inputs."
            )
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise PartitaError("The input holds a value that is not a finite number.")
        if self.type == "numbers":
            return torch.tensor(values).to(self.dtype)
        most = 255 if self.type == "bytes" else (self.below or np.iinfo(np.int64).max) - 1
        if values.size and (values.min() < 0 or values.max() > most or (values != np.trunc(values)).any()):
            raise PartitaError(f"The model takes {self}: whole numbers from 0 to {most}.")
        return torch.tensor(values).to(torch.uint8 if self.type == "bytes" else torch.int64)

    def __str__(self) -> str:
        shape = " x ".join(map(str, self.shape)) or "one"
        return f"batches of {shape} {self.type}"

    def example(self, count: int = 4) -> Tensor:
        """Prepared inputs without meaning, the same every time."""
        draw = torch.Generator().manual_seed(0)
        size = (count, *self.shape)
        if self.type == "numbers":
            return torch.randn(size, generator=draw).to(self.dtype)
        most = 256 if self.type == "bytes" else self.below or 2
        return self.preparation(
            torch.randint(most, size, generator=draw).to(torch.uint8 if self.type == "bytes" else torch.int64)
        )

    def as_dict(self) -> dict[str, Any]:
        """What JSON can hold; the tensors of the preparation and the vocabulary are kept beside."""
        return {
            "shape": list(self.shape),
            "type": self.type,
            "dtype": str(self.dtype).removeprefix("torch."),
            "below": self.below,
            "texts": None if self.words is None else {"characters": self.words.characters},
        }

    @classmethod
    def read(
        cls, found: Mapping[str, Any], kind: Problem, preparation: Preparation, vocabulary: Sequence[str] = ()
    ) -> "Inputs":
        """The signature that `as_dict` wrote."""
        texts = found["texts"]
        return cls(
            tuple(found["shape"]),
            found["type"],
            getattr(torch, found["dtype"]),
            preparation,
            found["below"],
            None if texts is None else Words(vocabulary, texts["characters"]),
            kind,
        )


def _words_of(data: Federation) -> Words | None:
    if data.pool is None or not isinstance(data.pool.inputs, Texts):
        return None
    training = torch.cat([roles["train"] for roles in data.roles]).numpy()
    size = data.facts["vocabulary"] - SPECIAL
    return Words(vocabulary_of(data.pool.inputs, training, size) if size > 0 else (), data.pool.inputs.characters)
