"""Is one method better than another? Means, paired differences with an interval, wins, and a corrected test."""

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from .errors import PartitaError, unknown

Scores = Mapping[tuple[int, int], float]
"""One score for each (seed, client)."""
Form = Literal["terminal", "csv", "markdown", "latex"]
Numbers = npt.NDArray[np.float64]

FEW_SEEDS = 5
"""With fewer seeds than this, their own spread is hardly known."""
DECIMALS = 12
"""Shares such as 0.3 - 0.2 and 0.2 - 0.1 differ in the last bits; for ranks they are equal."""


@dataclass(frozen=True)
class Standing:
    """A method by itself. Spreads are population standard deviations, None where there is one client or seed."""

    method: str
    mean: float
    """Over all (seed, client) pairs."""
    client_spread: float | None
    """Of the clients, each the mean over its seeds."""
    seed_spread: float | None
    """Of the seeds, each the mean over its clients."""
    seeds: int
    clients: int


@dataclass(frozen=True)
class Difference:
    """A method less the baseline, on the pairs that both have."""

    method: str
    mean: float
    interval: tuple[float, float] | None
    """None for a single pair, of which nothing can be drawn."""
    wins: int
    ties: int
    losses: int
    p: float
    corrected: float
    """p by Holm's step-down over all methods compared."""
    seeds: int
    clients: int
    pairs: int


@dataclass(frozen=True)
class Comparison:
    """All methods, each but the baseline against the baseline, and what to keep in mind when reading."""

    baseline: str
    level: float
    lower_is_better: bool
    standings: tuple[Standing, ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class _Grid:
    """Scores as a table (seeds, clients); what is missing is 0 and not known."""

    values: Numbers
    known: npt.NDArray[np.bool_]

    @property
    def mean(self) -> float:
        return float(self.values.sum() / self.known.sum())

    @property
    def by_client(self) -> Numbers:
        means: Numbers = self.values.sum(0) / self.known.sum(0)
        return means

    @property
    def by_seed(self) -> Numbers:
        means: Numbers = self.values.sum(1) / self.known.sum(1)
        return means


def compare(
    scores: Mapping[str, Scores],
    *,
    baseline: str,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    tie: float = 0.0,
    lower_is_better: bool = False,
) -> Comparison:
    """Every method by itself, and against the baseline on the (seed, client) pairs that both have.

    A client is taken to be the same in every seed. Wins are over clients, each the mean over its seeds; a difference
    of no more than `tie` is a tie. The interval is the middle `level` of means of redrawn seeds and redrawn clients.
    The test is over clients: it asks whether a difference holds among them, not whether another seed would repeat it.
    """
    _check(scores, baseline, level, resamples, tie)
    pairs = {name: _common(scores, name, baseline) for name in scores if name != baseline}
    grids = {
        name: _grid({pair: scores[name][pair] - scores[baseline][pair] for pair in common})
        for name, common in pairs.items()
    }
    raw = {name: paired_test(grid.by_client) for name, grid in grids.items()}
    corrected = dict(zip(raw, holm(list(raw.values())), strict=True))
    differences = tuple(
        _difference(
            name, grid, _interval(grid, level, resamples, seed), tie, lower_is_better, raw[name], corrected[name]
        )
        for name, grid in grids.items()
    )
    return Comparison(
        baseline=baseline,
        level=level,
        lower_is_better=lower_is_better,
        standings=tuple(_standing(name, _grid(each)) for name, each in scores.items()),
        differences=differences,
        notes=(*_notes(differences, level), *_unpaired(scores, baseline, pairs)),
    )


def paired_test(differences: Numbers) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test, differences of zero left out.

    Where all differences have the same size there is nothing to rank: then the sign test, and 1 where all are zero.
    """
    from scipy import stats

    rounded = np.round(differences, DECIMALS)
    moved = rounded[rounded != 0]
    if not len(moved):
        return 1.0
    if len(np.unique(np.abs(moved))) == 1:
        return float(stats.binomtest(int((moved > 0).sum()), len(moved)).pvalue)
    return float(stats.wilcoxon(moved).pvalue)


def holm(values: Sequence[float]) -> list[float]:
    """P-values such that the chance of any false finding among all is kept: the smallest times how many, and so on."""
    corrected = [0.0] * len(values)
    largest = 0.0
    for done, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        # A larger p-value is never corrected to a smaller one.
        largest = max(largest, min(1.0, (len(values) - done) * values[place]))
        corrected[place] = largest
    return corrected


def table(comparison: Comparison, form: Form, *, percent: bool = False) -> str:
    """The comparison as text; `percent` is for scores that are shares. CSV holds the plain numbers, without notes."""
    if form not in get_args(Form):
        raise PartitaError(unknown("form of a table", form, get_args(Form)))
    if form == "csv":
        return _csv(comparison)
    rows = cells(comparison, percent=percent)
    write: dict[str, Callable[[list[list[str]], list[str]], str]] = {
        "terminal": _plain,
        "markdown": _markdown,
        "latex": _latex,
    }
    return write[form](rows, remarks(comparison, percent=percent))


def cells(comparison: Comparison, *, percent: bool = False) -> list[list[str]]:
    """Rows of a table for people, the first of them the titles."""
    found = {each.method: each for each in comparison.differences}
    titles = ["method", "mean ± over clients", "over seeds", "difference", "p", "p (Holm)", "win/tie/loss"]
    rows = [titles]
    for standing in comparison.standings:
        mean, client_spread, seed_spread = (
            _number(value, percent) for value in (standing.mean, standing.client_spread, standing.seed_spread)
        )
        row = [" ".join(standing.method.split()), f"{mean} ± {client_spread}", seed_spread]
        rows.append(row + (_against(found[standing.method], percent) if standing.method in found else ["-"] * 4))
    return rows


def remarks(comparison: Comparison, *, percent: bool = False) -> list[str]:
    """What the numbers of a table are, and what to keep in mind."""
    unit = " Scores in percent." if percent else ""
    better = "less" if comparison.lower_is_better else "more"
    return [
        f"Difference: the method less {comparison.baseline}, with a {100 * comparison.level:g} % interval; "
        f"{better} is better.{unit}",
        *comparison.notes,
    ]


def _check(scores: Mapping[str, Scores], baseline: str, level: float, resamples: int, tie: float) -> None:
    if baseline not in scores:
        raise PartitaError(unknown("method", baseline, scores))
    if not 0 < level < 1:
        raise PartitaError(f"The level is {level}; it lies between 0 and 1, for instance 0.95.")
    if resamples < 1:
        raise PartitaError(f"{resamples} resamples; an interval needs at least one, and better 2000.")
    if not tie >= 0:
        raise PartitaError(f"A tie is a difference of at most {tie}; give 0 or more.")
    for name, each in scores.items():
        if not each:
            raise PartitaError(f"The method {name!r} has no scores.")
        for (seed, client), value in each.items():
            if not np.isfinite(value):
                raise PartitaError(f"The score of {name!r} is {value} for client {client} and seed {seed}.")


def _common(scores: Mapping[str, Scores], name: str, baseline: str) -> list[tuple[int, int]]:
    both = sorted(scores[name].keys() & scores[baseline].keys())
    if both:
        return both
    held = "; ".join(f"{each!r} has {_extent(scores[each])}" for each in (name, baseline))
    raise PartitaError(
        f"No pair of seed and client is common to {name!r} and {baseline!r}: {held}. "
        "Run both with the same seeds on the same clients."
    )


def _extent(scores: Scores) -> str:
    seeds, clients = (sorted({pair[part] for pair in scores}) for part in (0, 1))
    shown = ", ".join(map(str, clients[:10])) + (", ..." if len(clients) > 10 else "")
    return f"seeds {', '.join(map(str, seeds))} with clients {shown}"


def _grid(scores: Scores) -> _Grid:
    seeds, clients = (sorted({pair[part] for pair in scores}) for part in (0, 1))
    row, column = ({key: place for place, key in enumerate(keys)} for keys in (seeds, clients))
    values = np.zeros((len(seeds), len(clients)))
    known = np.zeros(values.shape, dtype=np.bool_)
    for (seed, client), value in scores.items():
        values[row[seed], column[client]] = value
        known[row[seed], column[client]] = True
    return _Grid(values, known)


def _standing(name: str, grid: _Grid) -> Standing:
    seeds, clients = grid.values.shape
    return Standing(
        method=name,
        mean=grid.mean,
        client_spread=float(grid.by_client.std()) if clients > 1 else None,
        seed_spread=float(grid.by_seed.std()) if seeds > 1 else None,
        seeds=seeds,
        clients=clients,
    )


def _interval(grid: _Grid, level: float, resamples: int, seed: int) -> tuple[float, float] | None:
    """Seeds and clients are drawn anew, each with replacement; a pair counts as often as its seed times its client."""
    if grid.known.sum() == 1:
        return None
    draw = np.random.default_rng(seed)
    of_seeds, of_clients = (draw.multinomial(size, np.full(size, 1 / size), resamples) for size in grid.values.shape)
    sums = ((of_seeds @ grid.values) * of_clients).sum(1)
    counts = ((of_seeds @ grid.known) * of_clients).sum(1)
    # Where pairs are missing, a draw may hit none at all.
    means = sums[counts > 0] / counts[counts > 0]
    if not len(means):
        return None
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _difference(
    name: str,
    grid: _Grid,
    interval: tuple[float, float] | None,
    tie: float,
    lower_is_better: bool,
    p: float,
    corrected: float,
) -> Difference:
    gains = np.round(-grid.by_client if lower_is_better else grid.by_client, DECIMALS)
    seeds, clients = grid.values.shape
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
        pairs=int(grid.known.sum()),
    )


def _notes(differences: Sequence[Difference], level: float) -> list[str]:
    """What is to be known of small samples; what holds for all methods alike is said once, without their names."""
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


def _unpaired(scores: Mapping[str, Scores], baseline: str, pairs: Mapping[str, Sequence[tuple[int, int]]]) -> list[str]:
    return [
        f"{name}: compared on {len(common)} pairs of seed and client; "
        f"it has {len(scores[name])}, {baseline} has {len(scores[baseline])}"
        for name, common in pairs.items()
        if not len(common) == len(scores[name]) == len(scores[baseline])
    ]


def _number(value: float | None, percent: bool, sign: str = "") -> str:
    if value is None:
        return "-"
    digits = 2 if percent else 4
    # Zero is added, so that what is rounded to nothing has no minus.
    return format(round(100 * value if percent else value, digits) + 0.0, f"{sign}.{digits}f")


def _against(difference: Difference, percent: bool) -> list[str]:
    mean = _number(difference.mean, percent, "+")
    within = ""
    if difference.interval:
        low, high = (_number(end, percent, "+") for end in difference.interval)
        within = f" [{low}, {high}]"
    ratio = f"{difference.wins}/{difference.ties}/{difference.losses}"
    return [mean + within, _chance(difference.p), _chance(difference.corrected), ratio]


def _chance(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _csv(comparison: Comparison) -> str:
    found = {each.method: each for each in comparison.differences}
    own = [field.name for field in fields(Standing)]
    names = ["difference", "low", "high", "wins", "ties", "losses", "p", "corrected", "pairs"]
    written = io.StringIO()
    writer = csv.DictWriter(written, [*own, *names], restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for standing in comparison.standings:
        row = asdict(standing)
        if standing.method in found:
            other = found[standing.method]
            low, high = other.interval or (None, None)
            # The method's own numbers of seeds and clients stand before those that it shares with the baseline.
            row = asdict(other) | row | {"difference": other.mean, "low": low, "high": high}
        writer.writerow(row)
    return written.getvalue()


def _plain(rows: list[list[str]], remarks: list[str]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    return "\n".join([*lines, "", *remarks]) + "\n"


def _markdown(rows: list[list[str]], remarks: list[str]) -> str:
    named = [[_marked(row[0]), *row[1:]] for row in rows]
    titles, *others = named
    lines = [f"| {' | '.join(row)} |" for row in (titles, ["---", *["---:"] * (len(titles) - 1)], *others)]
    return "\n".join([*lines, "", *(f"- {_marked(remark)}" for remark in remarks)]) + "\n"


def _marked(text: str) -> str:
    return re.sub(r"([\\`*_|<>])", r"\\\1", text)


LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "±": r"$\pm$",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
}


def _latex(rows: list[list[str]], remarks: list[str]) -> str:
    """For the package booktabs; remarks are comments."""
    titles, *others = (" & ".join(map(_escaped, row)) + r" \\" for row in rows)
    lines = [
        *(f"% {line}" for remark in remarks for line in remark.splitlines()),
        rf"\begin{{tabular}}{{l{'r' * (len(rows[0]) - 1)}}}",
        r"\toprule",
        titles,
        r"\midrule",
        *others,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _escaped(cell: str) -> str:
    written = "".join(LATEX.get(sign, sign) for sign in cell)
    # A bracket or a star after the end of a row would be read as its argument, and a minus as a hyphen.
    guarded = "{}" + written if written.startswith(("[", "*")) else written
    return re.sub(r"(?<![\w}])([+-])(?=\d)", r"$\1$", guarded)
