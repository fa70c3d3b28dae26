"""Is one method better than another? Means, paired differences with an interval, wins, and a corrected test."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..errors import PartitaError, unknown
from .metric import DECIMALS
from .resampling import RESAMPLES, Grid, Pair, grid, interval
from .significance import holm, paired_test

Scores = Mapping[Pair, float]
"""One score for each (seed, client)."""

FEW_SEEDS = 5
"""With fewer seeds than this, their own spread is hardly known."""


@dataclass(frozen=True)
class MethodScores:
    """The scores of one method. Spreads are population standard deviations, None with one client or one seed."""

    method: str
    mean: float
    """The mean over all (seed, client) pairs."""
    client_spread: float | None
    """The spread over clients: of one seed, or its mean over seeds, as everywhere."""
    seed_spread: float | None
    """The spread over seeds, where a seed's score is the mean over its clients."""
    seeds: int
    clients: int
    marks: tuple[str, ...] = ()
    """The terms in which the method differs from the others, such as the number of rounds."""
    settings: str = ""


@dataclass(frozen=True)
class Difference:
    """The scores of a method minus those of the baseline, on the pairs that both have."""

    method: str
    mean: float
    interval: tuple[float, float] | None
    """None for a single pair."""
    wins: int
    ties: int
    losses: int
    p: float
    corrected: float
    """p after Holm's correction for the number of methods compared."""
    seeds: int
    clients: int
    pairs: int


@dataclass(frozen=True)
class Comparison:
    """The scores of all methods, their differences to the baseline, and notes on how to read them."""

    baseline: str
    level: float
    lower_is_better: bool
    methods: tuple[MethodScores, ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]


def compare(
    scores: Mapping[str, Scores],
    *,
    baseline: str,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    tie: float = 0.0,
    lower_is_better: bool = False,
    marks: Mapping[str, Sequence[str]] | None = None,
    settings: Mapping[str, str] | None = None,
    notes: Sequence[str] = (),
    name_of: Callable[[int], str] = str,
) -> Comparison:
    """The scores of every method, and its difference to the baseline on the (seed, client) pairs that both have.

    A client is taken to be the same in every seed. Wins count clients by their mean over seeds; a difference of at most
    `tie` is a tie. The interval holds the middle `level` of the means of bootstrap samples, in which seeds and clients
    are drawn with replacement. The test is over clients: it asks whether the difference holds among clients, not
    whether other seeds would repeat it. `marks`, `settings` and `notes` are shown unchanged. Errors name clients by
    `name_of`.
    """
    _check(scores, baseline, level, resamples, tie, name_of)
    pairs = {name: _common(scores, name, baseline, name_of) for name in scores if name != baseline}
    grids = {
        name: grid({pair: scores[name][pair] - scores[baseline][pair] for pair in common})
        for name, common in pairs.items()
    }
    raw = {name: paired_test(each.by_client) for name, each in grids.items()}
    corrected = dict(zip(raw, holm(list(raw.values())), strict=True))
    differences = tuple(
        _difference(
            name,
            each,
            interval(each, level=level, resamples=resamples, seed=seed),
            tie,
            lower_is_better,
            raw[name],
            corrected[name],
        )
        for name, each in grids.items()
    )
    return Comparison(
        baseline=baseline,
        level=level,
        lower_is_better=lower_is_better,
        methods=tuple(
            replace(
                _method_scores(name, grid(each)),
                marks=tuple((marks or {}).get(name, ())),
                settings=(settings or {}).get(name, ""),
            )
            for name, each in scores.items()
        ),
        differences=differences,
        notes=(*_notes(differences, level), *_unpaired(scores, baseline, pairs), *notes),
    )


def _check(
    scores: Mapping[str, Scores],
    baseline: str,
    level: float,
    resamples: int,
    tie: float,
    name_of: Callable[[int], str],
) -> None:
    if baseline not in scores:
        raise PartitaError(unknown("method", baseline, scores))
    if not 0 < level < 1:
        raise PartitaError(f"level is {level}, but must be between 0 and 1, such as 0.95.")
    if resamples < 1:
        raise PartitaError(f"resamples is {resamples}, but must be at least 1; 2000 is a good number.")
    if not tie >= 0:
        raise PartitaError(f"tie is {tie}, but must be at least 0.")
    for name, each in scores.items():
        if not each:
            raise PartitaError(f"The method {name!r} has no scores.")
        for (seed, client), value in each.items():
            if not np.isfinite(value):
                raise PartitaError(
                    f"The score of {name!r} is {value} for client {name_of(client)} and seed {seed}, but must be "
                    "finite."
                )


def _common(scores: Mapping[str, Scores], name: str, baseline: str, name_of: Callable[[int], str]) -> list[Pair]:
    both = sorted(scores[name].keys() & scores[baseline].keys())
    if both:
        return both
    held = "; ".join(f"{each!r} has {_extent(scores[each], name_of)}" for each in (name, baseline))
    raise PartitaError(
        f"No pair of seed and client is common to {name!r} and {baseline!r}: {held}. "
        "Run both with the same seeds on the same clients."
    )


def _extent(scores: Scores, name_of: Callable[[int], str]) -> str:
    seeds, clients = (sorted({pair[part] for pair in scores}) for part in (0, 1))
    shown = ", ".join(map(name_of, clients[:10])) + (", ..." if len(clients) > 10 else "")
    return f"seeds {', '.join(map(str, seeds))} with clients {shown}"


def _method_scores(name: str, grid: Grid) -> MethodScores:
    seeds, clients = grid.sums.shape
    return MethodScores(
        method=name,
        mean=grid.mean,
        client_spread=grid.client_spread if clients > 1 else None,
        seed_spread=float(grid.by_seed.std()) if seeds > 1 else None,
        seeds=seeds,
        clients=clients,
    )


def _difference(
    name: str,
    grid: Grid,
    interval: tuple[float, float] | None,
    tie: float,
    lower_is_better: bool,
    p: float,
    corrected: float,
) -> Difference:
    gains = np.round(-grid.by_client if lower_is_better else grid.by_client, DECIMALS)
    seeds, clients = grid.sums.shape
    wins, losses = int((gains > tie).sum()), int((gains < -tie).sum())
    return Difference(
        method=name,
        mean=grid.mean,
        interval=interval,
        wins=wins,
        ties=clients - wins - losses,
        losses=losses,
        p=p,
        corrected=corrected,
        seeds=seeds,
        clients=clients,
        pairs=int(grid.weights.sum()),
    )


def _notes(differences: Sequence[Difference], level: float) -> list[str]:
    """Warnings about small samples; one that holds for all methods is given once, without their names."""
    holders: dict[str, list[str]] = {}
    for each in differences:
        for note in _small(each, level, len(differences)):
            holders.setdefault(note, []).append(each.method)
    return [
        note if len(names) == len(differences) else f"{', '.join(names)}: {note}" for note, names in holders.items()
    ]


def _small(difference: Difference, level: float, compared: int) -> list[str]:
    seeds, clients = difference.seeds, difference.clients
    notes = []
    if difference.pairs == 1:
        notes.append("one seed and one client: there is no interval")
    elif seeds == 1:
        notes.append("one seed: the interval is over clients alone")
    elif clients == 1:
        notes.append("one client: the interval is over seeds alone")
    if 1 < seeds < FEW_SEEDS:
        notes.append(f"{seeds} seeds: how much a seed matters is hardly known, and the interval may be too short")
    smallest = min(1.0, 2.0 ** (1 - clients))
    if smallest * compared > 1 - level:
        many = f", {min(1.0, smallest * compared):.3g} after the correction for {compared} methods"
        amount = "one client" if clients == 1 else f"{clients} clients"
        notes.append(f"{amount}: p cannot be below {smallest:.3g}{many if compared > 1 else ''}")
    return notes


def _unpaired(scores: Mapping[str, Scores], baseline: str, pairs: Mapping[str, Sequence[Pair]]) -> list[str]:
    return [
        f"{name}: compared on {len(common)} pairs of seed and client; "
        f"it has {len(scores[name])}, {baseline} has {len(scores[baseline])}"
        for name, common in pairs.items()
        if not len(common) == len(scores[name]) == len(scores[baseline])
    ]
