"""How is a finished run looked into? With the analyses that apply, on its stored models; what is found is kept."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core.optimizers import SGD
from ..errors import PartitaError, unknown
from ..evaluation.analyses.common import common_test
from ..evaluation.analyses.embedding import embedding
from ..evaluation.analyses.finetuning import Tuning, finetuning, tuning_of
from ..evaluation.analyses.inside_outside import inside_outside
from ..evaluation.analyses.similarity import similarity
from ..evaluation.analyses.subject import Subject
from ..evaluation.analyses.without_head import without_head
from ..simulation.events import Analysed, OnEvent
from .clients import StoredClients, stored_clients
from .session import Session


@dataclass(frozen=True)
class Scope:
    """How much is looked at."""

    clients: int = 100
    """At most; of more a fixed sample."""
    epochs: int | None = None
    """Of fine-tuning; by default as many as the method's own, or 5."""
    lr: float | None = None
    """Of fine-tuning, by SGD with momentum 0.9; by default the method's own optimizer, or 0.001."""
    compared_clients: int = 50
    """Whose models are compared with each other: what that holds grows with clients, layers and samples squared."""
    common_samples: int = 2000
    probe_samples: int = 200
    map_samples: int = 1000


@dataclass(frozen=True)
class Evaluated:
    """What was found by name, and why nothing was found by the other names."""

    found: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Looked:
    """The clients that an analysis looks at, and who is told."""

    stored: StoredClients
    scope: Scope
    name: str
    on_event: OnEvent

    def subjects(self, most: int | None = None) -> Iterator[Subject]:
        """One after another, so that few are in memory at a time."""
        chosen = self.stored.sample(min(self.scope.clients, most or self.scope.clients))
        for done, subject in enumerate(chosen.values(), 1):
            yield subject
            self.on_event(Analysed(self.name, done, len(chosen)))

    @property
    def batch(self) -> int:
        return self.stored.setup.experiment.evaluation_batch


def _finetuning(looked: _Looked) -> dict[str, Any]:
    own, scope = tuning_of(looked.stored.algorithm), looked.scope
    optimizer = own.optimizer if scope.lr is None else SGD(scope.lr, momentum=0.9)
    epochs = own.epochs if scope.epochs is None else scope.epochs
    return finetuning(looked.subjects(), Tuning(epochs, optimizer, own.penalty), looked.batch)


def _without_head(looked: _Looked) -> dict[str, Any]:
    _need_classes(looked)
    return without_head(looked.subjects(), looked.batch)


def _inside_outside(looked: _Looked) -> dict[str, Any]:
    _need_classes(looked)
    common = common_test(looked.stored.data, looked.scope.common_samples)
    return inside_outside(looked.subjects(), common, looked.batch)


def _similarity(looked: _Looked) -> dict[str, Any]:
    probe = common_test(looked.stored.data, looked.scope.probe_samples)
    return similarity(looked.subjects(looked.scope.compared_clients), probe, looked.batch)


def _embedding(looked: _Looked) -> dict[str, Any]:
    _need_classes(looked)
    clients = len(looked.stored.sample(looked.scope.clients))
    return embedding(looked.subjects(), max(looked.scope.map_samples // clients, 1), looked.batch)


ANALYSES: dict[str, Callable[[_Looked], dict[str, Any]]] = {
    "finetuning": _finetuning,
    "without_head": _without_head,
    "inside_outside": _inside_outside,
    "similarity": _similarity,
    "embedding": _embedding,
}


def evaluate(session: Session, names: Sequence[str] | None = None, scope: Scope | None = None) -> Evaluated:
    """Look into a run with the named analyses, or with all that apply, and keep each as soon as it is made.

    What was named and does not apply is an error; otherwise it is left out, and the reason is told.
    """
    for name in names or ():
        if name not in ANALYSES:
            raise PartitaError(unknown("analysis", name, ANALYSES))
    scope = scope or Scope()
    if scope.clients < 1:
        raise PartitaError(f"{scope.clients} clients: at least 1 is needed.")
    session.need_done()
    stored = stored_clients(session)
    made = Evaluated()
    for name in names or ANALYSES:
        try:
            found = ANALYSES[name](_Looked(stored, scope, name, session.on_event))
        except PartitaError as problem:
            if names:
                raise
            made = replace(made, left_out={**made.left_out, name: str(problem)})
            continue
        session.store.add_analysis(name, found)
        made = replace(made, found={**made.found, name: found})
    return made


def _need_classes(looked: _Looked) -> None:
    if looked.stored.data.kind != "classification":
        raise PartitaError(f"{looked.stored.data.name} has no classes.")
