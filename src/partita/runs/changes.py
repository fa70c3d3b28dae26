"""What does a method change for each client? Against another run on the same clients, by size, by rank, and spread out.

As in Pillutla et al., 2022: scatter plots (figures 4 and 7), device rank over seeds (figure 10), violins (figure 6).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..errors import PartitaError
from ..evaluation.scores import quantile
from ..evaluation.variants import Variant
from .gains import gain
from .stored import StoredRun

POINTS = 100


@dataclass(frozen=True)
class Change:
    """How much better a client's test score is than in the other run: of accuracy more, of RMSE less is better."""

    client: int
    samples: int
    """How much data the client has: see `sizes`."""
    change: float


@dataclass(frozen=True)
class Rank:
    """A client's place in the order of mean changes (from 0, the least first), and its changes over runs."""

    client: int
    mean: float
    std: float
    low: float
    high: float


@dataclass(frozen=True)
class Violin:
    """The density of numbers at points from the least to the largest, and their quartiles."""

    low: float
    lower_quartile: float
    median: float
    upper_quartile: float
    high: float
    at: list[float]
    density: list[float]


def changes(run: StoredRun, baseline: StoredRun, variant: Variant | None = None) -> list[Change]:
    """For each client with test samples in both runs, after their last rounds; newcomers are left out.

    Of the models that the methods are meant to be used with, or of the baseline's `variant`.
    """
    if run.record.metric != baseline.record.metric:
        raise PartitaError(f"Runs of different metrics cannot be compared: {run.folder} and {baseline.folder}.")
    if run.record.fingerprint != baseline.record.fingerprint:
        raise PartitaError(f"{run.folder} and {baseline.folder} have other clients: data or division differ.")
    found = gain(str(baseline.folder), run.scores(), baseline.scores(variant), run.metric)
    counts = sizes(run)[1]
    return [Change(client, counts[client], each) for client, each in zip(found.clients, found.gains, strict=True)]


def sizes(run: StoredRun) -> tuple[Literal["training", "held out"], Mapping[int, int]]:
    """How many samples each evaluated client has: for training, where the run's labels tell it of all of them.

    Elsewhere, for instance in a regression, as many as were held out for validation and test, which grow alike.
    """
    held: dict[int, dict[str, int]] = {}
    for record in run.records:
        if record.round == run.last:
            held.setdefault(record.client, {})[record.role] = record.count
    labels = run.analyses.get("labels")
    if labels and held.keys() <= set(labels["clients"]):
        return "training", dict(zip(labels["clients"], map(sum, labels["train"]), strict=True))
    return "held out", {client: sum(roles.values()) for client, roles in held.items()}


def hurt(found: Sequence[Change]) -> list[int]:
    """The clients that are worse off."""
    return [each.client for each in found if each.change < 0]


def by_rank(runs: Sequence[Sequence[Change]]) -> list[Rank]:
    """Clients in ascending order of their mean change over runs (seeds), with the spread of each over the runs.

    Of clients that all runs have.
    """
    each = [{change.client: change.change for change in run} for run in runs]
    common = set.intersection(*map(set, each)) if each else set()
    ranks = []
    for client in sorted(common):
        values = [run[client] for run in each]
        mean = sum(values) / len(values)
        std = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
        ranks.append(Rank(client, mean, std, min(values), max(values)))
    return sorted(ranks, key=lambda rank: rank.mean)


def violin(values: Sequence[float], points: int = POINTS) -> Violin:
    """By Gaussian kernels as wide as Scott's rule says: the sample's deviation divided by the fifth root of its size.

    Equal numbers have no density; there is one point, of density 1.
    """
    if not values:
        raise PartitaError("A violin of no numbers: at least one is needed.")
    ordered = sorted(values)
    low, lower, median, upper, high = (quantile(ordered, percent) for percent in (0, 25, 50, 75, 100))
    if low == high:
        return Violin(low, lower, median, upper, high, [low], [1.0])
    width = np.std(ordered, ddof=1) * len(ordered) ** -0.2
    at = np.linspace(low, high, points)
    kernels = np.exp(-(((at[:, None] - np.asarray(ordered)) / width) ** 2) / 2)
    density = kernels.mean(1) / (width * math.sqrt(2 * math.pi))
    return Violin(low, lower, median, upper, high, at.tolist(), density.tolist())
