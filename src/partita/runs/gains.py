"""Whom did it help, and whom did it hurt? Each client's gain over the floor and the baselines, on test data."""

from collections.abc import Mapping
from dataclasses import dataclass

from .database import DATABASE
from .view import View, view

DECIMALS = 12
"""Scores that differ in the last bits only are equal."""


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
    gains: tuple[float, ...]
    mean: float
    worst_decile: float
    """The mean of the lowest tenth of the gains (of at least one)."""
    hurt: tuple[int, ...]
    share: float
    """Of clients that are hurt."""


def gains_of(run: View) -> list[Gain]:
    """Over the floor and every baseline that was made and is still there, after the run's last evaluated round."""
    own = scores(run, run.about["model"])
    lower_is_better = run.about["metric"] != "accuracy"
    found = [gain(name, own, other, lower_is_better) for name, other in baseline_scores(run).items() if own]
    return [each for each in found if each.clients]


def baseline_scores(run: View) -> dict[str, dict[int, float]]:
    """Test scores by client, of the floor and of every baseline."""
    known: dict[str, dict[int, float]] = {}
    if lowest := run.analyses.get("floor"):
        known["floor"] = dict(zip(lowest["clients"], lowest["score"], strict=True))
    views = {".": run}
    for entry in run.analyses.get("baselines", []):
        place, folder = entry["run"], run.folder / entry["run"]
        if place not in views and (folder / DATABASE).exists():
            views[place] = view(folder)
        if place in views:
            known[entry["name"]] = scores(views[place], entry["model"])
    return known


def scores(run: View, model: str) -> dict[int, float]:
    """Test scores by client, of one model after the last evaluated round; newcomers aside."""
    last = max(run.evaluated, default=0)
    return {
        record.client: record.score
        for record in run.records
        if (record.round, record.role, record.model) == (last, "test", model)
        and record.count
        and record.client not in run.about["newcomers"]
    }


def gain(over: str, own: Mapping[int, float], other: Mapping[int, float], lower_is_better: bool) -> Gain:
    clients = tuple(sorted(own.keys() & other.keys()))
    sign = -1 if lower_is_better else 1
    gains = tuple(round(sign * (own[client] - other[client]), DECIMALS) for client in clients)
    hurt = tuple(client for client, each in zip(clients, gains, strict=True) if each < 0)
    count = max(len(clients), 1)
    worst = sorted(gains)[: max(len(gains) // 10, 1)]
    return Gain(
        over=over,
        macro=sum(other[client] for client in clients) / count,
        clients=clients,
        gains=gains,
        mean=sum(gains) / count,
        worst_decile=sum(worst) / max(len(worst), 1),
        hurt=hurt,
        share=len(hurt) / count,
    )
