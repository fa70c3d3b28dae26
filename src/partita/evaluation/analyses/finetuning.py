"""How fast, and with which part, does a model become personal? Scores after every epoch of fine-tuning, by part.

As in Oh et al., 2022 (FedBABU), tables 4 and 6: a copy of each client's model is fine-tuned on its training data.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from ...core.algorithm import Algorithm
from ...core.client import Client
from ...core.optimizers import SGD, Optimizer
from ...core.penalties import Penalty
from ...core.phases import Phase
from ...core.samples import Samples
from ...core.selectors import BODY, HEAD, NETWORK, Selector
from ...engine.reference import run_phase
from ...errors import PartitaError
from ...tensors import Tensors
from ..scores import Record
from .subject import Subject, told

PARTS = {"head": HEAD, "body": BODY, "full": NETWORK}


@dataclass(frozen=True)
class Tuning:
    """How to fine-tune: by default as FedBABU does."""

    epochs: int = 5
    optimizer: Optimizer = SGD(0.001, momentum=0.9)
    penalty: Penalty | None = None


def tuning_of(algorithm: Algorithm) -> Tuning:
    """As the method itself fine-tunes before use, where it does: in its last phase."""
    phases = [stage for stage in algorithm.finetune if isinstance(stage, Phase)]
    if not phases:
        return Tuning()
    last = phases[-1]
    epochs = last.epochs if isinstance(last.epochs, int) else Tuning.epochs
    return Tuning(epochs, last.optimizer, last.penalty)


def finetuning(subjects: Iterable[Subject], tuning: Tuning, batch: int = 512) -> dict[str, Any]:
    """Test scores, and beside them validation means, from the model as received (epoch 0) on; nothing is kept."""
    if tuning.epochs < 1:
        raise PartitaError(f"Fine-tuning for {tuning.epochs} epochs: at least 1 is needed.")
    clients: list[int] = []
    tests: dict[str, list[list[Record]]] = {}
    validations: dict[str, list[list[Record]]] = {}
    for subject in subjects:
        if subject.algorithm.predict:
            raise PartitaError(f"{subject.algorithm.label} answers by more than a network, which has no parts to tune.")
        clients.append(subject.client.id)
        for part, selector in PARTS.items():
            models = after_each_epoch(subject, selector, tuning)
            if not models:
                continue
            for found, samples in ((tests, subject.test), (validations, subject.client.validation)):
                epochs = found.setdefault(part, [[] for _ in range(tuning.epochs + 1)])
                for records, tensors in zip(epochs, models, strict=True):
                    records.append(subject.record(tensors, samples, batch))
    return {
        "clients": clients,
        "epochs": list(range(tuning.epochs + 1)),
        "lr": tuning.optimizer.lr,
        "parts": {part: _curve(tests[part], validations[part]) for part in tests},
    }


def after_each_epoch(subject: Subject, part: Selector, tuning: Tuning) -> list[Tensors]:
    """The client's tensors after 0, 1, ... epochs; none where the network has no such part to train."""
    algorithm, client = subject.algorithm, replace(subject.client, purpose="finetune")
    phase = Phase(
        algorithm.view.place(part),
        tuning.optimizer,
        epochs=tuning.epochs,
        penalty=tuning.penalty,
        view=algorithm.view,
    )
    if not phase.trained(client.task.network, frozenset(subject.before)):
        return []
    steps = client.batches_per_epoch(len(client.train))
    if not steps:
        # Too few samples for a step: the model stays as it is.
        return [subject.before] * (tuning.epochs + 1)
    seen: list[Tensors] = []
    taken = 0

    def watched(tensors: Tensors, samples: Samples, client: Client) -> Tensor:
        """The phase's own loss; at the first step of an epoch its tensors are those after the epoch before."""
        nonlocal taken
        if taken % steps == 0:
            # Copies: what follows may change tensors in place.
            seen.append({name: tensor.detach().clone() for name, tensor in tensors.items()})
        taken += 1
        return phase.loss(tensors, samples, client)

    [last] = run_phase(replace(phase, objective=watched), [client], [subject.before])
    return [*seen, last]


def _curve(tests: list[list[Record]], validations: list[list[Record]]) -> dict[str, Any]:
    test, validation = [told(records) for records in tests], [told(records) for records in validations]
    return {
        **{name: [each and each[name] for each in test] for name in ("macro", "std", "micro")},
        "validation": [each and each["macro"] for each in validation],
    }
