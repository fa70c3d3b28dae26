"""How good is the body alone? Accuracy without the head, by the nearest template.

As in Oh et al., 2022 (FedBABU), section 5.2.1: by cosine in the paper, by Euclidean distance in its published code.
"""

from collections.abc import Iterable
from typing import Any

from .. import representation
from ..representation import Similarity
from ..scores import Record, record_of
from .subject import Subject, told

SIMILARITIES: tuple[Similarity, ...] = ("cosine", "euclidean")


def without_head(subjects: Iterable[Subject], batch: int = 512) -> dict[str, Any]:
    """Of the model as received, before fine-tuning; templates are of each client's own training data."""
    clients: list[int] = []
    found: dict[str, list[Record]] = {name: [] for name in (*SIMILARITIES, "with_head")}
    for subject in subjects:
        if not len(subject.test):
            continue
        client, weights = subject.client, subject.weights(subject.before)
        clients.append(client.id)
        found["with_head"].append(subject.record(subject.before, subject.test, batch))
        for similarity in SIMILARITIES:
            sums = representation.without_head(client.task, weights, client.train, subject.test, similarity, batch)
            found[similarity].append(record_of(sums, client.moment.round, client.id))
    return {"clients": clients, **{name: told(records) for name, records in found.items()}}
