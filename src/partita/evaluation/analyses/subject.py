"""Whom does an analysis look at? A client after the last round, its models, and the test data it is judged by."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from torch import Tensor

from ...core.algorithm import Algorithm, RunPhase, begin, personalize
from ...core.client import Client
from ...core.samples import Samples
from ...engine.fast import FastEngine
from ...tensors import Tensors
from ..scores import Record, measure, record_of, summarize


@dataclass(frozen=True, eq=False)
class Subject:
    """A client with what it keeps and receives after the last round. Its models are made when they are asked for."""

    algorithm: Algorithm
    client: Client
    """As the algorithm sees it, without test data; it has entered: its initial tensors are there."""
    test: Samples
    classes: Tensor | None = None
    """Where the client numbers its own classes: which these are."""
    run_phase: RunPhase = field(default_factory=FastEngine)

    @cached_property
    def before(self) -> Tensors:
        """The tensors of the model `before_local`: after the download, before anything is trained."""
        return begin(self.algorithm, self.client)

    @cached_property
    def used(self) -> Tensors:
        """The tensors of the model that the method is meant to be used with: fine-tuned, where the method does so."""
        if not self.algorithm.finetune:
            return self.before
        [tuned] = personalize(self.algorithm, [self.client], self.run_phase)
        return tuned

    def weights(self, tensors: Tensors) -> Tensors:
        """The network's weights that tensors of this client make."""
        return self.algorithm.view.weights(tensors, self.client.task.network)

    def record(self, tensors: Tensors, samples: Samples, batch: int) -> Record:
        """How good a model of the client is on samples."""
        sums = measure(self.algorithm, self.client, tensors, samples, batch)
        return record_of(sums, self.client.moment.round, self.client.id)


def told(records: Iterable[Record]) -> dict[str, float] | None:
    """Mean and spread over clients, and the score of all samples together; None where nobody has samples."""
    chosen = [record for record in records if record.count]
    if not chosen:
        return None
    summary = summarize(chosen)
    return {"macro": summary.macro, "std": summary.std, "micro": summary.micro, "clients": summary.clients}
