"""What does the guard do for a stored run? It chooses on validation data, and is measured on test data."""

import os
from collections.abc import Iterator, Mapping
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
from ..tensors import Tensors
from .gains import gain
from .models import StoredClients, stored_clients
from .store import Store


@dataclass(frozen=True)
class Measured:
    """One client: sums over its samples at every weight of its personal model."""

    validation: list[Measures]
    test: list[Measures]


def add_guard(folder: Path, *, global_run: Path | None = None, prior: float = PRIOR) -> dict[str, Any]:
    """Guard a run that is done, and note what came of it.

    The personal model is the one that the method is meant to be used with. The global one is what the method shares, if
    it shares the whole network, else the model of `global_run`, by default of the run's global baseline. The choice
    sees validation data alone; all scores are on test data. Clients that never train are left out.
    """
    clients = _finished(folder)
    other = folder if global_run is None and shares_everything(clients) else global_run or _global_baseline(folder)
    shared = clients if other == folder else _finished(other)
    if shared.keys() != clients.keys():
        raise PartitaError(f"{other} has other clients than {folder}.")
    measured = {number: _measure(clients, shared, number) for number in clients}
    found = {
        **outcome(measured, prior, Metric(clients.data.metric)),
        "global_run": os.path.relpath(other, folder),
    }
    with Store.open(folder, write=True) as store:
        store.add_analysis("guard", found)
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


def _finished(folder: Path) -> StoredClients:
    """Those who train, of a run that is done."""
    with Store.open(folder) as store:
        store.need_done()
    clients = stored_clients(folder)
    return clients.sample(len(clients))


def _global_baseline(folder: Path) -> Path:
    with Store.open(folder) as store:
        baselines = store.analyses.get("baselines", [])
    for entry in baselines:
        if entry["name"] == "global":
            return Path(os.path.normpath(folder / entry["run"]))
    raise PartitaError(
        f"{folder} shares only a part of its network, and has no global baseline to fall back to. Name a run of a "
        "whole network on the same data: --global RUN"
    )


def _measure(clients: StoredClients, shared: StoredClients, number: int) -> Measured:
    personal, common = clients[number], shared[number]
    data = clients.data[number]
    return Measured(*(_by_weight(clients, personal, common, samples) for samples in (data.validation, data.test)))


def _by_weight(clients: StoredClients, personal: Subject, common: Subject, samples: Samples) -> list[Measures]:
    sums: list[Measures] = [{} for _ in WEIGHTS]
    whole = received_network(common)
    for part in _parts(samples, clients.workshop.evaluation_batch):
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
