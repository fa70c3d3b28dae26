"""What do stored results look like? Figures of the papers, drawn again from our data, each with its table."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import numpy as np

from ..evaluation.figures import Line, Table
from ..evaluation.metric import Metric
from ..formatting import NONE, plain, signed
from ..report.charts.frame import colour, shortened
from ..report.charts.intervals import Interval, intervals
from ..report.charts.lines import lines
from ..report.charts.scatter import Mark, scatter
from ..report.charts.violin import Violin, violins
from ..report.markup import Html
from ..report.picture import picture
from ..report.scale import Axis, axis, size_axis, whole_axis
from .measure import Found, Scores
from .recipe import Drawing, Number, Picture, Recipe
from .result import RecipeResult, RunResult

PER_CENT = "test accuracy, %"


@dataclass(frozen=True)
class Drawn:
    name: str
    title: str
    note: str
    chart: Html
    table: Table

    @property
    def svg(self) -> str:
        return picture(self.chart)


def pictures(recipe: Recipe, result: RecipeResult) -> list[Drawn]:
    """The pictures of a recipe, of which the result has at least one part."""
    found = Found(recipe, result)
    drawn = ((each, DRAWN[each.drawing](found, each)) for each in recipe.pictures)
    return [Drawn(each.name, each.shows, *parts) for each, parts in drawn if parts]


Parts = tuple[str, Html, Table] | None
"""A note, the chart and its table; None where nothing is stored that it could show."""


def _runs(found: Found, wanted: Picture) -> list[tuple[str, RunResult]]:
    stored = found.result.runs if found.result else {}
    return [(name, stored[name]) for name in wanted.of if name in stored]


def _numbers(found: Found, wanted: Picture) -> list[tuple[Number, Scores]]:
    several = (found.recipe.number(name) for name in wanted.of)
    return [(number, scores) for number in several if (scores := found.scores(number))]


def _over(points: dict[str, list[tuple[float, float]]], x: Axis, wanted: Picture, label: str) -> Html:
    series = [Line(name, each, number) for number, (name, each) in enumerate(points.items())]
    y = axis(label, [value for each in points.values() for _, value in each])
    return lines(wanted.shows, x, y, series)


def _course(run: RunResult) -> list[tuple[float, float]]:
    """The mean over clients and seeds after each round, in per cent, or as it is where it is an error."""
    if run.course is None:
        return []
    scale = 1.0 if Metric(run.metric).lower_is_better else 100.0
    means = np.mean([run.course.test[seed] for seed in run.seeds], axis=(0, 2))
    return [(at, scale * float(mean)) for at, mean in zip(run.course.rounds, means, strict=True)]


def _curves(found: Found, wanted: Picture) -> Parts:
    points = {name: course for name, run in _runs(found, wanted) if (course := _course(run))}
    if not points:
        return None
    rounds = sorted({at for each in points.values() for at, _ in each})
    by_round = {name: dict(each) for name, each in points.items()}
    rows = [[plain(at), *(_two(each.get(at)) for each in by_round.values())] for at in rounds]
    metric = Metric(next(run for _, run in _runs(found, wanted)).metric)
    label = f"test {metric.name}" if metric.lower_is_better else PER_CENT
    chart = _over(points, whole_axis("round", 0, int(max(rounds))), wanted, label)
    return "Mean over clients and seeds.", chart, Table(["round", *points], rows)


def _finetuning(found: Found, wanted: Picture) -> Parts:
    points: dict[str, list[tuple[float, float]]] = {}
    for name, run in _runs(found, wanted):
        for key, by_seed in run.scores.items():
            if key.startswith("finetuning."):
                _, part, epoch = key.split(".")
                points.setdefault(f"{name}, {part}", []).append((int(epoch), 100 * _mean(by_seed.values())))
    if not points:
        return None
    points = {name: sorted(each) for name, each in points.items()}
    epochs = sorted({at for each in points.values() for at, _ in each})
    rows = [[name, *(_two(dict(each).get(at)) for at in epochs)] for name, each in points.items()]
    chart = _over(points, whole_axis("epochs of fine-tuning", 0, int(max(epochs))), wanted, PER_CENT)
    return "Mean over clients, by the part that is tuned.", chart, Table(["run, part", *map(plain, epochs)], rows)


def _similarity(found: Found, wanted: Picture) -> Parts:
    by_run: dict[str, dict[str, float]] = {}
    for name, run in _runs(found, wanted):
        measured = [(key.removeprefix("cka."), each) for key, each in run.scores.items() if key.startswith("cka.")]
        if measured:
            by_run[name] = {layer: _mean(each.values()) for layer, each in measured}
    if not by_run:
        return None
    layers = list(dict.fromkeys(layer for each in by_run.values() for layer in each))

    def named(place: float) -> str:
        return shortened(layers[min(round(place), len(layers) - 1)], 110)

    x = Axis("layer", 0, max(len(layers) - 1, 1), tuple(map(float, range(len(layers)))), named, named)
    points = {
        name: [(float(layers.index(layer)), value) for layer, value in each.items()] for name, each in by_run.items()
    }
    chart = _over(points, x, wanted, "CKA between clients")
    rows = [[name, *(_three(each.get(layer)) for layer in layers)] for name, each in by_run.items()]
    return "Mean over pairs of clients; 1: alike.", chart, Table(["run", *layers], rows)


def _of_numbers(found: Found, wanted: Picture) -> Parts:
    several = _numbers(found, wanted)
    if not several:
        return None
    drawn = []
    rows = []
    names, common = without_common([number.name for number, _ in several])
    for place, (name, (number, scores)) in enumerate(zip(names, several, strict=True)):
        low, high = scores.interval or (scores.value, scores.value)
        said = f"{number.name}: {scores.value:.2f} ({low:.2f} to {high:.2f})"
        drawn.append(Interval(name, scores.value, low, high, colour(place), said, number.published))
        rows.append([number.name, _two(scores.value), f"{low:.2f} to {high:.2f}", _two(number.published)])
    ends = [end for each in drawn for end in (each.low, each.high, *([each.marked] if each.marked is not None else []))]
    units = sorted({scores.unit for _, scores in several})
    label = "per cent" if units == ["points"] else ", ".join(units)
    marked = any(number.published is not None for number, _ in several)
    note = "Dot and line: ours with its 95 % interval." + (" Upright mark: published." if marked else "")
    note += f" All: {common}." if common else ""
    table = Table(["", "ours", "95 % interval", "published"], rows)
    return note, intervals(wanted.shows, axis(label, ends), drawn), table


def without_common(names: Sequence[str]) -> tuple[list[str], str]:
    """Names without the parts after their commas in which all end, and those parts.

    >>> without_common(["fedavg, s = 2, initial", "fedbabu, s = 2, initial"])
    (['fedavg', 'fedbabu'], 's = 2, initial')
    """
    parts = [name.split(", ") for name in names]
    ends = 0
    while all(len(each) > ends + 1 and each[-ends - 1] == parts[0][-ends - 1] for each in parts):
        ends += 1
    if len(names) < 2 or not ends:
        return list(names), ""
    return [", ".join(each[:-ends]) for each in parts], ", ".join(parts[0][-ends:])


def _by_client(scores: Scores) -> list[tuple[int, float]]:
    """The mean over seeds of each client that has scores, with its place among clients."""
    counted = (scores.weights > 0).sum(0)
    sums = np.where(scores.weights > 0, scores.values, 0.0).sum(0)
    return [(place, float(sums[place] / counted[place])) for place in range(len(counted)) if counted[place]]


def _gains(found: Found, wanted: Picture) -> Parts:
    several = [(number, [value for _, value in _by_client(scores)]) for number, scores in _numbers(found, wanted)]
    if not several:
        return None
    drawn = [Violin(number.name, values, place) for place, (number, values) in enumerate(several)]
    x = axis("change, points", [value for each in drawn for value in each.values], say=lambda value: signed(value, 1))
    rows = [
        [number.name, *(_two(float(np.quantile(values, at))) for at in (0, 0.25, 0.5, 0.75, 1)), _share(values)]
        for number, values in several
    ]
    table = Table(["", "least", "lower quartile", "median", "upper quartile", "most", "below zero"], rows)
    return "One value for each client.", violins(wanted.shows, x, drawn), table


def _sizes(found: Found, wanted: Picture) -> Parts:
    """The changes of the first number that is stored, over the clients' sizes."""
    several = _numbers(found, wanted)
    if not several:
        return None
    number, scores = several[0]
    run = found.run(number)
    assert run is not None
    points = [(run.sizes[place], value, run.clients[place]) for place, value in _by_client(scores)]
    marks = [Mark(size, value, 0, f"client {name}: {size} samples, {value:+.1f}") for size, value, name in points]
    x = size_axis("samples of the client", [size for size, _, _ in points])
    y = axis("change, points", [value for _, value, _ in points], say=lambda value: signed(value, 1))
    rows = [
        [f"{low} to {high}", str(len(values)), _two(fmean(values)), _share(values)]
        for low, high, values in _quarters(points)
    ]
    note = f"{number.name}; one point for each client, and the table by quarters of clients."
    return note, scatter(wanted.shows, x, y, marks), Table(["samples", "clients", "mean change", "below zero"], rows)


def _quarters(points: Sequence[tuple[int, float, str]]) -> Iterator[tuple[int, int, list[float]]]:
    """Clients by size in four groups that are equally large up to one."""
    ordered = sorted(points)
    ends = [round(len(ordered) * quarter / 4) for quarter in range(5)]
    for first, last in pairwise(ends):
        if group := ordered[first:last]:
            yield group[0][0], group[-1][0], [value for _, value, _ in group]


def _mean(several: Iterable[Sequence[float | None]]) -> float:
    return fmean(value for values in several for value in values if value is not None)


def _share(values: Sequence[float]) -> str:
    return f"{100 * sum(value < -1e-9 for value in values) / len(values):.0f} %"


def _two(value: float | None) -> str:
    return NONE if value is None else f"{value:.2f}"


def _three(value: float | None) -> str:
    return NONE if value is None else f"{value:.3f}"


DRAWN: dict[Drawing, Callable[[Found, Picture], Parts]] = {
    "curves": _curves,
    "numbers": _of_numbers,
    "finetuning": _finetuning,
    "similarity": _similarity,
    "gains": _gains,
    "sizes": _sizes,
}
