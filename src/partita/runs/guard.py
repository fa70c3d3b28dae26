"""What does the guard do for a stored run? It chooses on validation data, and is measured on test data."""

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..core.algorithm import shared_names
from ..core.objectives import Measures
from ..core.samples import Samples
from ..errors import PartitaError
from ..evaluation.analyses.subject import Subject
from ..evaluation.comparison import compare
from ..evaluation.guard import PRIOR, WEIGHTS, choose, mixture
from ..evaluation.metric import Metric
from ..evaluation.scores import record_of
from ..randomness import seeded
from ..simulation.events import Analysed
from ..tensors import Tensors
from .clients import StoredClients, stored_clients
from .gains import gain
from .session import Session


@dataclass(frozen=True)
class Measured:
    """One client: sums over its samples at every weight of its personal model."""

    validation: list[Measures]
    test: list[Measures]


def add_guard(session: Session, *, global_run: Path | None = None, prior: float = PRIOR) -> dict[str, Any]:
    """Guard a run that is done, and note what came of it.

    The personal model is the one that the method is meant to be used with. The global one is what the method shares, if
    it shares the whole network, else the model of `global_run`, by default of the run's global baseline. The choice
    sees validation data alone; all scores are on test data. Clients that never train are left out; of more clients than
    the run evaluates, the same sample is guarded.
    """
    session.need_done()
    folder = session.folder
    clients = _guarded(session)
    other = folder if global_run is None and shares_everything(clients) else global_run or _global_baseline(session)
    with ExitStack() as opened:
        beside = session if other == folder else opened.enter_context(session.beside(other))
        beside.need_done()
        shared = _guarded(beside)
        if shared.keys() != clients.keys():
            raise PartitaError(f"{other} has other clients than {folder}.")
        measured: dict[int, Measured] = {}
        for number in clients:
            measured[number] = _measure(clients, shared, number)
            session.on_event(Analysed("guard", len(measured), len(clients)))
    found = {
        **outcome(measured, prior, Metric(clients.data.metric)),
        "global_run": os.path.relpath(other, folder),
    }
    session.store.add_analysis("guard", found)
    return found


def shares_everything(clients: StoredClients) -> bool:
    """Whether what a client receives is a whole network, which answers by itself."""
    client = clients[next(iter(clients))].client
    network = client.task.network
    shared = shared_names(clients.algorithm, client.task, client.initial)
    return clients.algorithm.predict is None and set(network.parameters) - network.frozen <= shared


def outcome(measured: Mapping[int, Measured], prior: float, metric: Metric) -> dict[str, Any]:
    """The choice of every client by its validation data, and what it means on test data."""
    known = {client: each for client, each in measured.items() if each.test[0].get("count")}
    places = choose(
        [[sums.get("loss", 0.0) for sums in each.validation] for each in known.values()],
        [int(each.validation[0].get("count", 0)) for each in known.values()],
        prior,
    )
    scores = {
        name: {
            client: record_of(each.test[place], 0, client).score
            for (client, each), place in zip(known.items(), taken, strict=True)
        }
        for name, taken in (("global", [0] * len(known)), ("personal", [-1] * len(known)), ("guarded", places))
    }
    before, after = (gain("global", scores[name], scores["global"], metric) for name in ("personal", "guarded"))
    pairs = {name: {(0, client): value for client, value in each.items()} for name, each in scores.items()}
    [*_, difference] = compare(pairs, baseline="personal").differences
    low, high = difference.interval or (difference.mean, difference.mean)
    return {
        "weights": list(WEIGHTS),
        "prior": prior,
        "clients": list(known),
        "chosen": [WEIGHTS[place] for place in places],
        **{name: list(each.values()) for name, each in scores.items()},
        "hurt_before": len(before.hurt),
        "hurt_after": len(after.hurt),
        "macro_personal": sum(scores["personal"].values()) / len(known),
        "macro_guarded": sum(scores["guarded"].values()) / len(known),
        "difference": difference.mean,
        "low": low,
        "high": high,
    }


def _guarded(session: Session) -> StoredClients:
    """Those who train, as many as the run evaluates."""
    return stored_clients(session).sample(session.experiment.evaluation_clients)


def _global_baseline(session: Session) -> Path:
    folder = session.folder
    for entry in session.store.analyses.get("baselines", []):
        if entry["name"] == "global":
            return Path(os.path.normpath(folder / entry["run"]))
    raise PartitaError(
        f"{folder} shares only a part of its network, and has no global baseline to fall back to. Name a run of a "
        "whole network on the same data: --global RUN"
    )


def _measure(clients: StoredClients, shared: StoredClients, number: int) -> Measured:
    personal, common = clients[number], shared[number]
    data, task = clients.data[number], personal.client.task
    held_out = (samples.alone(task.layout, task.device) for samples in (data.validation, data.test))
    return Measured(*(_by_weight(clients, personal, common, samples) for samples in held_out))


def _by_weight(clients: StoredClients, personal: Subject, common: Subject, samples: Samples) -> list[Measures]:
    sums: list[Measures] = [{} for _ in WEIGHTS]
    whole = received_network(common)
    for part in _parts(samples, clients.setup.experiment.evaluation_batch):
        mine = _outputs(personal, personal.used, part, plain=False)
        theirs = _outputs(common, whole, part, plain=True)
        for total, weight in zip(sums, WEIGHTS, strict=True):
            mixed = mixture(mine, theirs, weight, clients.data.kind)
            for name, value in personal.client.task.measure(mixed, part.targets).items():
                total[name] = total.get(name, 0) + value
    return sums


def received_network(subject: Subject) -> Tensors:
    """The network as the client received it; what never travels is the client's own."""
    return {name: subject.client.received.get(name, subject.before[name]) for name in subject.client.task.weights}


def _parts(samples: Samples, size: int) -> Iterator[Samples]:
    return (samples.take(slice(at, at + size)) for at in range(0, len(samples), size))


def _outputs(subject: Subject, tensors: Tensors, samples: Samples, *, plain: bool) -> Tensor:
    """The method's answer, or the plain network's."""
    client = subject.client
    client.task.evaluate_()
    with torch.no_grad(), seeded(client.moment.seed, "evaluation", client.moment.round, client.id):
        if plain:
            return client.task.outputs(tensors, samples.inputs)
        return subject.algorithm.outputs(tensors, samples.inputs, client)
