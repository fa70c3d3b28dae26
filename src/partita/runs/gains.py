"""Whom did it help, and whom did it hurt? Each client's gain over the floor and the baselines, on test data."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..errors import PartitaError
from ..evaluation.metric import Metric
from ..evaluation.scores import tenth
from ..evaluation.variants import Variant
from .stored import StoredRun, read_run


@dataclass(frozen=True)
class Gain:
    """A run against one baseline, on the clients that train and that both have scores of.

    A gain is how much better the run's model is on the client's test data, in the units of the score; for regression,
    how much smaller its error. A client is hurt if its gain is below zero, by however little.
    """

    over: str
    macro: float
    """The baseline's mean over clients."""
    clients: tuple[int, ...]
    scores: tuple[float, ...]
    others: tuple[float, ...]
    """The baseline's scores."""
    gains: tuple[float, ...]
    mean: float
    worst_decile: float
    """The mean of the lowest tenth of the gains (of at least one)."""
    hurt: tuple[int, ...]
    share: float
    """Of clients that are hurt."""


@dataclass(frozen=True, eq=False)
class Named:
    """The baselines that a run names: of those that are there the run and which of its models; why others are not."""

    found: Mapping[str, tuple[StoredRun, Variant]]
    lost: Mapping[str, str]


def gains_of(run: StoredRun, named: Named | None = None) -> list[Gain]:
    """Over the floor and every baseline that was made and is still there, after the run's last evaluated round."""
    lowest, beside = over_floor(run), named or named_baselines(run, {})
    return [*([lowest] if lowest else []), *gains_over(run, beside.found).values()]


def over_floor(run: StoredRun) -> Gain | None:
    """Over the best constant answer for each client."""
    if not (lowest := run.analyses.get("floor")):
        return None
    found = gain("floor", run.scores(), dict(zip(lowest["clients"], lowest["score"], strict=True)), run.metric)
    return found if found.clients else None


def gains_over(run: StoredRun, others: Mapping[str, tuple[StoredRun, Variant]]) -> dict[str, Gain]:
    """Over models of other runs on the same clients, by name."""
    found = {
        name: gain(name, run.scores(), each.scores(variant), run.metric) for name, (each, variant) in others.items()
    }
    return {name: each for name, each in found.items() if each.clients}


def named_baselines(run: StoredRun, read: dict[Path, StoredRun]) -> Named:
    """Nothing is measured against itself. `read` holds what was read: many runs have the same baselines."""
    found: dict[str, tuple[StoredRun, Variant]] = {}
    lost: dict[str, str] = {}
    own = Path(os.path.normpath(run.folder))
    for entry in run.analyses.get("baselines", []):
        folder = Path(os.path.normpath(own / entry["run"]))
        if (folder, entry["variant"]) == (own, run.record.variant):
            continue
        try:
            read[folder] = read.get(folder) or (run if folder == own else read_run(folder))
        except PartitaError as problem:
            lost[entry["name"]] = str(problem)
        else:
            found[entry["name"]] = (read[folder], entry["variant"])
    return Named(found, lost)


def gain(over: str, own: Mapping[int, float], other: Mapping[int, float], metric: Metric) -> Gain:
    clients = tuple(sorted(own.keys() & other.keys()))
    gains = tuple(metric.gain(own[client], other[client]) for client in clients)
    hurt = tuple(client for client, each in zip(clients, gains, strict=True) if each < 0)
    count = max(len(clients), 1)
    worst = tenth(sorted(gains))
    return Gain(
        over=over,
        macro=sum(other[client] for client in clients) / count,
        clients=clients,
        scores=tuple(own[client] for client in clients),
        others=tuple(other[client] for client in clients),
        gains=gains,
        mean=sum(gains) / count,
        worst_decile=sum(worst) / max(len(worst), 1),
        hurt=hurt,
        share=len(hurt) / count,
    )
