"""Who gains, and by how much? Differences to the baselines on the same clients."""

from collections.abc import Sequence
from statistics import fmean, pstdev

from ...evaluation.figures import Line
from ...evaluation.gains import by_rank, gain as gain_over
from ...evaluation.scores import quantile
from ...evaluation.variants import Variant
from ...formatting import NONE
from ...runs.stored import StoredRun
from ..charts.histogram import bins, histogram
from ..charts.lines import has_bands, legend, lines
from ..charts.scatter import Mark, scatter
from ..charts.violin import Violin, violins
from ..conclusion import best_baseline
from ..figure import Section, figure, grid, missing_baselines, multiples, section
from ..markup import Html, tag
from ..method import Method
from ..sampling import evenly, part_shown
from ..scale import count_axis, gain_axis, score_axis, size_axis, whole_axis
from ..study import Study

PLACE = 50
MOST_POINTS = 400
MOST_RANKS = 60
ALIKE = 1.2
"""Clients of which the largest has less than this many times the samples of the smallest are of one size."""
FEW_METHODS = 2
OUTLINE = "Outline: how many clients. Thick line: the middle half. Dot: the median."


def gains(study: Study) -> Section:
    if not any(method.summaries for method in study.methods):
        return section("gains", "Client by client", tag("p", "Nothing was evaluated yet.", class_="missing"))
    known = [name for name in study.references if any(method.over(name) for method in study.methods)]
    parts, small = [_violins(study, name) for name in known], []
    if known:
        reference = best_baseline(study) or known[0]
        wanted = known if len(study.methods) == 1 else [reference]
        shown = [method for method in study.methods if method.over(reference)]
        small += [_histograms(study, shown, name) for name in wanted]
        small += _scatters(study, shown, reference)
        parts += _gains_by_rank(study, reference)
    parts += [*_changes(study), _scores_by_rank(study)]
    # A card as wide as the page would be empty for the most part.
    few = len(study.methods) <= FEW_METHODS
    content = [grid(*parts, *small)] if few else [grid(*parts), *small]
    if not known:
        content.append(missing_baselines("Gains over local training and over the global model need these baselines."))
    return section("gains", "Client by client", *content)


def _violins(study: Study, reference: str) -> Html:
    several = [
        Violin(method.name, values, method.number)
        for method in study.methods
        if (values := method.gains_over(reference))
    ]
    return _violin_figure(study, f"Gain over {reference}", several)


def _violin_figure(study: Study, title: str, several: Sequence[Violin], note: str = OUTLINE) -> Html:
    if not any(value for each in several for value in each.values):
        return tag("figure", tag("figcaption", tag("strong", title), tag("span", "No client's score differs.")))
    change = study.metric.change
    rows = []
    for each in several:
        ordered = sorted(each.values)
        quarters = (quantile(ordered, percent) for percent in (0, 25, 50, 75, 100))
        rows.append([each.name, *map(change, quarters), change(fmean(each.values)), f"{len(each.values):,}"])
    x = gain_axis(study.metric, [0, *(value for each in several for value in each.values)])
    chart = violins(f"{title}: how clients are spread", x, several)
    titles = ["", "least", "lower quarter", "median", "upper quarter", "most", "mean", "values"]
    return figure(title, chart, titles, rows, note)


def _changes(study: Study) -> list[Html]:
    """What training in the round or fine-tuning does to each client's model."""
    kinds: tuple[tuple[Variant, str], ...] = (("after_local", "trained"), ("after_finetune", "fine-tuned"))
    several = []
    for method in study.methods:
        for variant, name in kinds:
            if values := [value for each in method.tested for value in _change(each.run, variant)]:
                shown = name if len(study.methods) == 1 else f"{method.name}, {name}"
                several.append(Violin(shown, values, method.number))
    some = any(0 < len(run.scores("after_local")) < len(run.scores("before_local")) for run in study.runs)
    note = f"{OUTLINE} Trained: only the clients that took part in the last round." if some else OUTLINE
    return [_violin_figure(study, "Change by training on one's own data", several, note)] if several else []


def _change(run: StoredRun, variant: Variant) -> tuple[float, ...]:
    """The change of each client's score since before its local training."""
    return gain_over("before_local", run.scores(variant), run.scores("before_local"), run.metric).gains


def _histograms(study: Study, methods: Sequence[Method], reference: str) -> Html:
    """One small histogram for each method, all with the same axes."""
    known = {method.name: method.gains_over(reference) for method in methods if method.over(reference)}
    every = [value for values in known.values() for value in values]
    span = (min(every), max(every))
    most = max(len(bins(values, span=span)) for values in known.values())
    found = {name: bins(values, max(most, 6), span) for name, values in known.items()}
    several = len(study.seeds) > 1
    what = "clients (each seed counts)" if several else "clients"
    x = gain_axis(study.metric, [each for some in found.values() for each in (some[0].low, some[-1].high)], most=4)
    y = count_axis(what, (each.count for some in found.values() for each in some))
    charts, rows = [], []
    for method in methods:
        if method.name not in found:
            continue
        label = f"{method.name} over {reference}: how many clients gain how much"
        said = f"hurt: {method.hurt_text(reference)}, {known[method.name].count(0):,} equal"
        charts.append((method.name, said, histogram(label, x, found[method.name], what, y=y)))
        rows += [
            [method.name, f"{study.metric.change(each.low)} to {study.metric.change(each.high)}", f"{each.count:,}"]
            for each in found[method.name]
            if each.count
        ]
    return multiples(f"Gain over {reference}: how many clients", charts, ["method", "gain", what], rows)


def _scatters(study: Study, methods: Sequence[Method], reference: str) -> list[Html]:
    """One small scatter for each method, all with the same axes; none where clients are of nearly the same size."""
    what = f"{methods[0].run.sample_counts[0]} samples"
    found = {
        method.name: [
            (run.seed, run.record.name_of(client), gain, run.sample_counts[1][client])
            for run, each in method.over(reference)
            for client, gain in zip(each.clients, each.gains, strict=True)
        ]
        for method in methods
    }
    limit = max(MOST_POINTS // len(methods), 60)
    shown = {name: evenly(each, limit) for name, each in found.items()}
    every = [point for each in shown.values() for point in each]
    sizes = [max(count, 1) for _, _, _, count in every]
    if max(sizes) < ALIKE * min(sizes):
        return []
    x = size_axis(what, sizes, few=True)
    y = gain_axis(study.metric, [0, *(gain for _, _, gain, _ in every)], most=5)
    charts, rows = [], []
    for method in methods:
        marks = []
        for seed, name, gain, count in shown[method.name]:
            tip = f"client {name}, seed {seed}: {study.metric.change(gain)}, {count:,} {what}"
            marks.append(Mark(max(count, 1), gain, method.number, tip))
            rows.append([method.name, name, str(seed), f"{count:,}", study.metric.change(gain)])
        label = f"{method.name} over {reference}: gain against the number of {what}"
        charts.append((method.name, "", scatter(label, x, y, marks, small=True)))
    total = max(map(len, found.values()))
    note = ("A point for each client and seed. " + part_shown(limit, total, "points of a method")).strip()
    titles = ["method", "client", "seed", what, "gain"]
    return [multiples(f"Gain over {reference}, by data size", charts, titles, rows, note)]


def _gains_by_rank(study: Study, reference: str) -> list[Html]:
    """Clients in order of their mean gain over seeds, where there are several."""
    metric = study.metric
    series, rows = [], []
    for method in study.methods:
        several = method.over(reference)
        ranked = by_rank([each for _, each in several]) if len(several) > 1 else []
        if not ranked:
            continue
        places = evenly(range(len(ranked)), MOST_RANKS)
        points = [(place + 1, ranked[place].mean) for place in places]
        series.append(Line(method.name, points, method.number, [ranked[place].std for place in places]))
        rows += [
            [
                method.name,
                f"{place + 1:,}",
                several[0][0].record.name_of(ranked[place].client),
                metric.change(ranked[place].mean),
                f"{metric.change(ranked[place].low)} to {metric.change(ranked[place].high)}",
            ]
            for place in places
        ]
    if not series:
        return []
    y = gain_axis(metric, [0, *(value for each in series for _, value in each.points)])
    last = int(max(each.points[-1][0] for each in series))
    title = f"Gain over {reference} by rank of the client"
    chart = lines(f"{title}, the least first", whole_axis("rank", 1, last), y, series)
    note = "Clients in ascending order of their mean gain over seeds" + _band(series)
    return [
        figure(title, chart, ["method", "rank", "client", "mean gain", "over seeds"], rows, note, legend=legend(series))
    ]


def _band(series: Sequence[Line]) -> str:
    return "; band: spread over seeds." if has_bands(series) else "."


def _scores_by_rank(study: Study) -> Html:
    """Clients in order of their score, the worst first, separately under each seed."""
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
            [method.name, f"{place + 1:,}", metric.text(mean), metric.text(spread) if len(ordered) > 1 else NONE]
            for place, mean, spread in zip(places, means, spreads, strict=True)
        ]
    y = score_axis(metric, [value for each in series for _, value in each.points])
    last = int(max(each.points[-1][0] for each in series))
    chart = lines("Score by rank of the client, the worst first", whole_axis("rank", 1, last), y, series)
    note = "Clients from worst to best, ranked separately under each seed" + _band(series)
    titles = ["method", "rank", metric.name, "spread over seeds"]
    return figure("By rank of the client", chart, titles, rows, note, legend=legend(series))
