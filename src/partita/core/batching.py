"""In which order does a client see its samples?"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..randomness import generator
from .samples import Samples
from .signatures import Positive, check_fields, named_fields


@named_fields
@dataclass(frozen=True)
class Batching:
    """How an epoch is cut into batches; the last, smaller batch is kept unless `drop_last`."""

    size: Positive = 10
    shuffle: bool = True
    drop_last: bool = False
    example: ClassVar[str] = "Batching(32)"

    def __post_init__(self) -> None:
        check_fields(self)

    def count(self, samples: int, batch_norm: bool) -> int:
        """The number of batches. Batch norm cannot train on one sample: such a last batch is dropped."""
        smallest = self.size if self.drop_last else 2 if batch_norm else 1
        whole, rest = divmod(samples, self.size)
        return (whole if self.size >= smallest else 0) + (rest >= smallest)

    def bounds(self, samples: int, batch_norm: bool) -> list[tuple[int, int]]:
        """Where batches begin and end."""
        begins = range(0, self.count(samples, batch_norm) * self.size, self.size)
        return [(begin, min(begin + self.size, samples)) for begin in begins]

    def epoch(self, samples: Samples, batch_norm: bool, seed: int, purpose: str, *key: int) -> Iterator[Samples]:
        """One pass over the samples. Order and augmentation depend on the seed and the key alone."""
        draw = generator(seed, purpose + "/augment", *key)
        for rows in self.rows(len(samples), batch_norm, seed, purpose, *key):
            yield samples.take(rows).augmented(draw)

    def rows(self, samples: int, batch_norm: bool, seed: int, purpose: str, *key: int) -> list[Tensor]:
        """The batches of an epoch by the numbers of their samples."""
        order = (
            torch.randperm(samples, generator=generator(seed, purpose, *key)) if self.shuffle else torch.arange(samples)
        )
        return [order[begin:end] for begin, end in self.bounds(samples, batch_norm)]
