"""Whom does a method help, and whom does it hurt? Each client's gain over a reference, on test data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from .metric import Metric
from .scores import tenth


@dataclass(frozen=True)
class Gain:
    """A method against a reference, on the clients that both have scores of.

    A gain is how much better the method's model is on the client's test data, in the units of the score; for
    regression, how much smaller its error. A client is hurt if its gain is below zero, by however little.
    """

    over: str
    """The name of the reference."""
    macro: float
    """The reference's mean over clients."""
    clients: tuple[int, ...]
    scores: tuple[float, ...]
    others: tuple[float, ...]
    """The reference's scores."""
    gains: tuple[float, ...]
    mean: float
    worst_decile: float
    """The mean of the lowest tenth of the gains (of at least one)."""
    hurt: tuple[int, ...]
    """The clients that are hurt."""
    share: float
    """The share of clients that are hurt."""


def gain(over: str, own: Mapping[int, float], other: Mapping[int, float], metric: Metric) -> Gain:
    """Compare scores by client with those of a reference."""
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


@dataclass(frozen=True)
class Rank:
    """A client's gains over several runs (seeds)."""

    client: int
    mean: float
    std: float
    low: float
    high: float


def by_rank(gains: Sequence[Gain]) -> list[Rank]:
    """Clients in ascending order of their mean gain over runs (seeds), with the spread of each over the runs.

    Only clients that all runs have are ranked. As in Pillutla et al., 2022, figure 10.
    """
    each = [dict(zip(gain.clients, gain.gains, strict=True)) for gain in gains]
    common = set.intersection(*map(set, each)) if each else set()
    ranks = []
    for client in sorted(common):
        values = [run[client] for run in each]
        ranks.append(Rank(client, fmean(values), pstdev(values), min(values), max(values)))
    return sorted(ranks, key=lambda rank: rank.mean)
