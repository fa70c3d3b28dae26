"""What does a client know in a round? Its task, its training data, what it keeps and what it received. No test data."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..randomness import Moment, generator, seeded
from ..tensors import Tensors
from .batching import Batching
from .samples import Samples
from .task import Task


@dataclass(frozen=True, eq=False)
class Client:
    """One client in one round, as an algorithm sees it."""

    id: int
    task: Task
    train: Samples
    validation: Samples
    """Held out of the training data; may be empty."""
    moment: Moment = field(default_factory=Moment)
    batching: Batching = field(default_factory=Batching)
    initial: Tensors = field(default_factory=dict)
    """All tensors that the algorithm gives a client before its first round."""
    own: Tensors = field(default_factory=dict)
    """What the client keeps between rounds; empty before its first."""
    received: Tensors = field(default_factory=dict)
    purpose: str = "train"
    name: str = ""
    """The client's name in the data, for messages; by default its number."""

    def __str__(self) -> str:
        return f"client {self.name or self.id}"

    def generator(self, purpose: str) -> torch.Generator:
        """Random numbers of this client in this round."""
        return generator(self.moment.seed, purpose, self.moment.round, self.id)

    def seeded(self, purpose: str) -> AbstractContextManager[None]:
        """Inside the context, what torch itself draws (dropout) belongs to this client and round, on any device."""
        return seeded(self.moment.seed, purpose, self.moment.round, self.id, device=self.task.device)

    def batches(self, samples: Samples, epoch: int) -> Iterator[Samples]:
        """One epoch. The order is the same for every phase, so that methods can be compared phase by phase."""
        return self.batching.epoch(samples, *self._key(epoch))

    def rows(self, samples: int, epoch: int) -> list[Tensor]:
        """The same batches by the numbers of their samples."""
        return self.batching.rows(samples, *self._key(epoch))

    def _key(self, epoch: int) -> tuple[bool, int, str, int, int, int]:
        moment = self.moment
        return self.task.network.has_batch_norm, moment.seed, self.purpose, moment.round, self.id, epoch

    def batches_per_epoch(self, samples: int) -> int:
        return self.batching.count(samples, self.task.network.has_batch_norm)

    @property
    def held_out(self) -> Samples:
        """Validation data, or the training data where there is none."""
        return self.validation if len(self.validation) else self.train

    def at(self, epoch: int, step: int) -> Moment:
        # Not by `replace`, which takes ten times as long; there is one for every step.
        now = self.moment
        return Moment(now.round, now.rounds, now.seed, epoch, step)
