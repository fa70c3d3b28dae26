"""Who gains, and by how much? Differences to the baselines on the same clients."""

from collections.abc import Sequence
from statistics import fmean, pstdev

from ...evaluation import Model, Record
from ..charts.histogram import bins, histogram
from ..charts.lines import Line, lines
from ..charts.scatter import Point, scatter
from ..charts.violin import Violin, quartiles, violins
from ..figure import Section, figure, grid, missing_baselines, section
from ..markup import Html, tag
from ..sampling import evenly, told
from ..scale import Axis, axis, size_axis, whole_axis
from ..study import Method, Replica, Study
from ..wording import NONE

MOST_POINTS = 400
MOST_METHODS = 6
MOST_RANKS = 60
Pairs = Sequence[tuple[int, Record, Record]]


def gains(study: Study) -> Section:
    if not any(method.summaries for method in study.methods):
        return section("gains", "Client by client", tag("p", "Nothing was evaluated yet.", class_="missing"))
    known = [name for name in study.references if any(method.pairs(name) for method in study.methods)]
    parts = [_violins(study, name) for name in known]
    if known:
        # What personalization is for is to beat the model that all share.
        reference = "global" if "global" in known else known[0]
        wanted = known if len(study.methods) == 1 else [reference]
        shown = [method for method in study.methods if method.pairs(reference)][:MOST_METHODS]
        parts += [_histogram(study, method, name) for method in shown for name in wanted if method.pairs(name)]
        parts += [_scatter(study, method, reference) for method in shown]
    content = [grid(*parts, *_changes(study), _ranks(study))]
    if not known:
        content.append(missing_baselines("Gains over local training and over the global model need these baselines."))
    elif len(study.methods) > MOST_METHODS:
        content.append(tag("p", f"Histograms and scatters are of the first {MOST_METHODS} methods.", class_="quiet"))
    return section("gains", "Client by client", *content)


def training_sizes(method: Method) -> tuple[dict[int, int], str]:
    """Training samples by client, where they were counted; else test samples, which are known always."""
    for labels in method.analyses("labels"):
        return {
            client: sum(row) for client, row in zip(labels["clients"], labels["train"], strict=True)
        }, "training samples"
    return {client: record.count for each in method.tested for client, record in each.last.items()}, "test samples"


def _gains(study: Study, pairs: Pairs) -> list[float]:
    return [study.metric.gain(mine.score, other.score) for _, mine, other in pairs]


def _axis(study: Study, values: Sequence[float]) -> Axis:
    return axis(study.metric.gain_axis, [0, *values], study.metric.tick, study.metric.change, most=7)


def _violins(study: Study, reference: str) -> Html:
    several = [
        Violin(method.name, _gains(study, pairs), method.number)
        for method in study.methods
        if (pairs := method.pairs(reference))
    ]
    return _violin_figure(study, f"Gain over {reference}", several)


def _violin_figure(study: Study, title: str, several: Sequence[Violin]) -> Html:
    change = study.metric.change
    rows = []
    for each in several:
        low, middle, high = quartiles(each.values)
        ends = (min(each.values), low, middle, high, max(each.values))
        rows.append([each.name, *map(change, ends), change(fmean(each.values)), str(len(each.values))])
    x = _axis(study, [value for each in several for value in each.values])
    chart = violins(f"{title}: how clients are spread", x, several)
    titles = ["", "least", "lower quarter", "median", "upper quarter", "most", "mean", "values"]
    return figure(
        title, chart, titles, rows, "Outline: how many clients. Thick line: the middle half. Dot: the median."
    )


def _changes(study: Study) -> list[Html]:
    """What training in the round or fine-tuning does to each client's model."""
    kinds: tuple[tuple[Model, str], ...] = (("after_local", "trained"), ("after_finetune", "fine-tuned"))
    several = []
    for method in study.methods:
        for model, name in kinds:
            if values := [value for each in method.tested for value in _change(study, each, model)]:
                shown = name if len(study.methods) == 1 else f"{method.name}, {name}"
                several.append(Violin(shown, values, method.number))
    return [_violin_figure(study, "Change by training on one's own data", several)] if several else []


def _change(study: Study, replica: Replica, model: Model) -> list[float]:
    """Of each client's score, from before its local training."""
    at = replica.rounds[-1]
    before = {record.client: record.score for record in replica.grouped.get((at, "before_local", "test"), ())}
    after = replica.grouped.get((at, model, "test"), ())
    return [study.metric.gain(each.score, before[each.client]) for each in after if each.client in before]


def _histogram(study: Study, method: Method, reference: str) -> Html:
    values = _gains(study, method.pairs(reference))
    found = bins(values)
    x = axis(study.metric.gain_axis, [found[0].low, found[-1].high], study.metric.tick, study.metric.change, most=7)
    what = "clients" if len(method.replicas) == 1 else "clients (each seed counts)"
    rows = [[f"{study.metric.change(each.low)} to {study.metric.change(each.high)}", str(each.count)] for each in found]
    worse = sum(value < 0 for value in values)
    note = f"{worse} of {len(values)} are worse off, {sum(value == 0 for value in values)} equal."
    title = f"{method.name} over {reference}"
    return figure(
        title, histogram(f"{title}: how many clients gain how much", x, found, what), ["gain", what], rows, note
    )


def _scatter(study: Study, method: Method, reference: str) -> Html:
    sizes, what = training_sizes(method)
    pairs = [each for each in method.pairs(reference) if each[1].client in sizes]
    shown = evenly(pairs, MOST_POINTS)
    points, rows = [], []
    for seed, mine, other in shown:
        gain, size = study.metric.gain(mine.score, other.score), sizes[mine.client]
        tip = f"client {mine.client}, seed {seed}: {study.metric.change(gain)}, {size:,} {what}"
        points.append(Point(max(size, 1), gain, method.number, tip))
        rows.append([str(mine.client), str(seed), f"{size:,}", study.metric.change(gain)])
    title = f"{method.name} over {reference}, by data size"
    x, y = size_axis(what, [each.x for each in points]), _axis(study, [each.y for each in points])
    note = ("A point for each client and seed. " + told(MOST_POINTS, len(pairs), "points")).strip()
    chart = scatter(f"{title}: gain against the number of {what}", x, y, points)
    return figure(title, chart, ["client", "seed", what, "gain"], rows, note)


def _ranks(study: Study) -> Html:
    """Clients in order of their score, the worst first; under each seed anew."""
    metric = study.metric
    series, rows = [], []
    for method in study.methods:
        ordered = [
            sorted((r.score for r in each.last.values()), reverse=metric.lower_is_better) for each in method.tested
        ]
        if not ordered:
            continue
        places = evenly(range(min(map(len, ordered))), MOST_RANKS)
        means = [fmean(scores[place] for scores in ordered) for place in places]
        spreads = [pstdev([scores[place] for scores in ordered]) for place in places]
        series.append(
            Line(
                method.name,
                [(place + 1, mean) for place, mean in zip(places, means, strict=True)],
                method.number,
                spreads,
            )
        )
        rows += [
            [method.name, str(place + 1), metric.text(mean), metric.text(spread) if len(ordered) > 1 else NONE]
            for place, mean, spread in zip(places, means, spreads, strict=True)
        ]
    y = axis(
        metric.axis,
        [value for each in series for _, value in each.points],
        metric.tick,
        metric.text,
        within=metric.bounds,
    )
    last = int(max(each.points[-1][0] for each in series))
    chart = lines("Score by rank of the client, the worst first", whole_axis("rank", 1, last), y, series)
    note = "Clients from worst to best, ranked anew under each seed" + (
        "; band: spread over seeds." if len(study.seeds) > 1 else "."
    )
    return figure("By rank of the client", chart, ["method", "rank", metric.name, "spread over seeds"], rows, note)
