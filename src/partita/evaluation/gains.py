"""Whom does a method help, and whom does it hurt? Each client's gain over a reference, on test data."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, pstdev
from typing import Literal

from .intervals import Interval, over_seeds, unpaired_shares
from .metric import DECIMALS, Metric
from .scores import tenth

Verdict = Literal["surely", "perhaps", "not"]


@dataclass(frozen=True)
class Gain:
    """A method against a reference, on the clients that both have scores of.

    A gain is how much better the method's model is on the client's test data, in the units of the score; for
    regression, how much smaller its error. A client is hurt if its gain is below zero. It is surely hurt if the 95 %
    interval of its gain is below zero too, else perhaps: with few test samples a loss of one sample is chance.
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
    intervals: tuple[Interval | None, ...]
    """The interval of each gain: from pairs of answers to the same test samples if these are stored, a wider one if
    only totals are stored, else None."""
    paired: bool
    """Whether every interval is of pairs."""
    mean: float
    worst_decile: float
    """The mean of the lowest tenth of the gains (of at least one)."""
    hurt: tuple[int, ...]
    """The clients that are hurt."""
    surely: tuple[int, ...]
    """Those of them that are surely hurt; the others are hurt perhaps."""
    share: float
    """The share of clients that are hurt."""

    @property
    def hurt_text(self) -> str:
        """How many are hurt, the same wherever it is said.

        >>> gain("local", {0: 0.0, 1: 0.5}, {0: 1.0, 1: 0.6}, Metric("accuracy"), {0: 10, 1: 10}).hurt_text
        '2 of 2 (1 surely)'
        """
        return hurt_text(len(self.hurt), len(self.surely), len(self.clients), known=self.has_intervals)

    @property
    def has_intervals(self) -> bool:
        return any(each is not None for each in self.intervals)

    def verdict(self, client: int) -> Verdict:
        """Whether a client is hurt: `surely`, `perhaps` or `not`."""
        surely, hurt = self._verdicts
        return "surely" if client in surely else "perhaps" if client in hurt else "not"

    @cached_property
    def _verdicts(self) -> tuple[frozenset[int], frozenset[int]]:
        return frozenset(self.surely), frozenset(self.hurt)


def hurt_text(hurt: int, surely: int, total: int, *, known: bool) -> str:
    """How many are hurt, and how many of them surely if intervals are `known`."""
    return f"{hurt:,} of {total:,}" + (f" ({surely:,} surely)" if known else "")


def gain(
    over: str,
    own: Mapping[int, float],
    other: Mapping[int, float],
    metric: Metric,
    counts: Mapping[int, int] | None = None,
    paired: Mapping[int, Interval] | None = None,
) -> Gain:
    """Compare scores by client with those of a reference.

    `paired` are intervals of gains, by client. For others, `counts`, the clients' numbers of test samples, give wider
    ones.
    """
    clients = tuple(sorted(own.keys() & other.keys()))
    gains = tuple(metric.gain(own[client], other[client]) for client in clients)
    known = paired or {}
    intervals = tuple(
        known.get(client) or _unpaired(own[client], other[client], metric, (counts or {}).get(client))
        for client in clients
    )
    hurt = tuple(client for client, each in zip(clients, gains, strict=True) if each < 0)
    surely = tuple(client for client, each in zip(clients, intervals, strict=True) if each and each[1] < 0)
    count = max(len(clients), 1)
    worst = tenth(sorted(gains))
    return Gain(
        over=over,
        macro=sum(other[client] for client in clients) / count,
        clients=clients,
        scores=tuple(own[client] for client in clients),
        others=tuple(other[client] for client in clients),
        gains=gains,
        intervals=intervals,
        paired=all(client in known for client in clients),
        mean=sum(gains) / count,
        worst_decile=sum(worst) / max(len(worst), 1),
        hurt=hurt,
        surely=surely,
        share=len(hurt) / count,
    )


def _unpaired(own: float, other: float, metric: Metric, count: int | None) -> Interval | None:
    if metric.lower_is_better or not count:
        return None
    return unpaired_shares(own, other, count)


@dataclass(frozen=True)
class SeedsGain:
    """A client's gain under several seeds."""

    mean: float
    interval: Interval | None
    verdict: Verdict


def by_client(gains: Sequence[Gain]) -> dict[int, SeedsGain]:
    """Each client's mean gain over the seeds that it has one for, and whether it is hurt by it."""
    values: dict[int, list[float]] = {}
    intervals: dict[int, list[Interval]] = {}
    for each in gains:
        for client, value, interval in zip(each.clients, each.gains, each.intervals, strict=True):
            values.setdefault(client, []).append(value)
            intervals.setdefault(client, []).extend([interval] if interval else [])
    found = {}
    for client, several in values.items():
        mean, interval = fmean(several), over_seeds(several, intervals[client])
        # As for one seed: rounded, so that the last bits hurt nobody.
        hurt = round(mean, DECIMALS) < 0
        surely = hurt and interval is not None and interval[1] < 0
        found[client] = SeedsGain(mean, interval, "surely" if surely else "perhaps" if hurt else "not")
    return found


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
