"""How did it get there? Scores over rounds and bytes, and what a target cost."""

from dataclasses import replace
from statistics import fmean, pstdev

from ...evaluation.figures import Line
from ...evaluation.metric import DECIMALS
from ...evaluation.scores import HeldOut
from ...evaluation.variants import Variant
from ...formatting import NONE, byte_text, byte_unit, duration
from ...runs.target import reached, spent
from ..charts.lines import Level, has_bands, legend, lines
from ..figure import Section, figure, grid, html_table, paragraph, section
from ..markup import Html, tag
from ..method import Method, Replica
from ..sampling import evenly, part_shown
from ..scale import axis, score_axis, ticks, whole_axis
from ..study import Study

PLACE = 40
MOST_POINTS = 60
SHORT: dict[Variant, str] = {
    "initial": "initial",
    "before_local": "before local",
    "after_local": "after local",
    "after_finetune": "fine-tuned",
}
Curve = list[tuple[int, float, float]]
"""Rounds, the mean of the seeds, and their spread."""


def curves(study: Study) -> Section:
    if not any(method.summaries for method in study.methods):
        return section("curves", "Learning curves", paragraph("Nothing was evaluated yet.", class_="missing"))
    found = _curves(study)
    figures = [_over_rounds(study, found)]
    if sum(each.run.bytes_per_round for method in study.methods for each in method.replicas):
        figures.append(_over_bytes(study))
    return section("curves", "Learning curves", grid(*figures), *_targets(study))


def curve(replicas: list[Replica], variant: Variant, role: HeldOut) -> Curve:
    """The mean over clients after each round at which it was measured."""
    known: dict[int, list[float]] = {}
    for each in replicas:
        for at, mean in each.run.course(variant, role).items():
            known.setdefault(at, []).append(mean)
    return [(at, fmean(values), pstdev(values)) for at, values in sorted(known.items())]


def _curves(study: Study) -> list[tuple[str, int, Curve]]:
    """One curve for each method; of a single method, one for each variant and one on validation data."""
    if len(study.methods) > 1:
        return [
            (method.name, method.number, found)
            for method in study.methods
            if (found := curve(list(method.replicas), method.run.record.variant, "test"))
        ]
    method = study.methods[0]
    used: Variant = method.run.record.variant
    wanted: list[tuple[str, Variant, HeldOut]] = [(SHORT[used], used, "test"), ("validation", used, "validation")]
    wanted += [(short, variant, "test") for variant, short in SHORT.items() if variant != used]
    several = [(name, curve(list(method.replicas), variant, role)) for name, variant, role in wanted]
    return [(name, number, found) for number, (name, found) in enumerate(several) if found]


def _over_rounds(study: Study, found: list[tuple[str, int, Curve]]) -> Html:
    metric = study.metric
    shown = [(name, number, evenly(each, MOST_POINTS)) for name, number, each in found]
    series = [
        Line(name, [(at, mean) for at, mean, _ in each], number, [spread for _, _, spread in each])
        for name, number, each in shown
    ]
    levels = _levels(study)
    values = [mean for each in series for _, mean in each.points] + [level.value for level in levels]
    last = max(at for _, _, each in shown for at, _, _ in each)
    y = score_axis(metric, values)
    rounds = sorted({at for _, _, each in shown for at, _, _ in each})
    known = {name: {at: mean for at, mean, _ in each} for name, _, each in shown}
    rows = [[f"{at:,}", *(metric.text(each[at]) if at in each else NONE for each in known.values())] for at in rounds]
    note = "Mean over clients" + (", and over seeds" if len(study.seeds) > 1 else "")
    note += "; band: spread over seeds." if has_bands(series) else "."
    note += " " + part_shown(MOST_POINTS, max(len(each) for _, _, each in found), "rounds")
    if len(rounds) == 1:
        note += " Evaluated once; the setting evaluate_every says how often."
    chart = lines(f"Mean test {metric.name} over rounds", whole_axis("round", 0, last), y, series, levels)
    names = legend(series, levels)
    return figure("Over rounds", chart, ["round", *known], rows, note.strip(), legend=names)


def _levels(study: Study) -> list[Level]:
    floors = [each.macro for _, each in study.floors]
    known = {"floor": fmean(floors)} if floors else {}
    known |= {method.name: method.mean for method in study.baselines if method.summaries}
    return [Level(name, value, study.metric.text(value)) for name, value in known.items()]


def _over_bytes(study: Study) -> Html:
    metric = study.metric
    series, rows = [], []
    for method in study.methods:
        found = evenly(curve(list(method.replicas), method.run.record.variant, "test"), MOST_POINTS)
        if not found:
            continue
        points = [(fmean(spent(each.run, at).bytes for each in method.replicas) / 1e6, mean) for at, mean, _ in found]
        series.append(Line(method.name, points, method.number))
        rows += [
            [method.name, f"{at:,}", byte_text(1e6 * x), metric.text(y)]
            for (at, _, _), (x, y) in zip(found, points, strict=True)
        ]
    y = score_axis(metric, [value for each in series for _, value in each.points])
    most = max(at for each in series for at, _ in each.points)
    unit, factor = byte_unit(1e6 * most)
    series = [replace(each, points=[(1e6 * at / factor, value) for at, value in each.points]) for each in series]
    x = axis(f"{unit} sent", [0, 1e6 * most / factor])
    chart = lines(f"Mean test {metric.name} over {unit} sent", x, y, series)
    note = "All clients' traffic together, down and up. What sends nothing stands at zero."
    return figure("Over traffic", chart, ["method", "round", "sent", metric.name], rows, note, legend=legend(series))


def _targets(study: Study) -> list[Html]:
    """What each method spent to reach some round numbers between the first and the best mean."""
    metric, lower = study.metric, study.metric.lower_is_better
    runs = [each for method in study.methods for each in method.tested]
    all_means = [list(each.run.course().values()) for each in runs]
    worst, best = (max, min) if lower else (min, max)
    start, end = worst(each[0] for each in all_means), best(best(each) for each in all_means)
    between = (round(each, DECIMALS) for each in ticks(min(start, end), max(start, end), 7))
    found = [each for each in between if metric.gain(each, start) > 0 and metric.gain(end, each) >= 0]
    targets = found[:4] if lower else found[-4:]
    if not targets:
        return []
    rows = [[method.name, *(_cost(method, target) for target in targets)] for method in study.methods]
    titles = ["method", *(f"{'at most' if lower else 'at least'} {metric.text(target)}" for target in targets)]
    explained = (
        "The first evaluated round whose mean over clients is as good as the target; means over the runs that reach "
        "it. This reads the curve of test scores, and chooses nothing by it."
    )
    return [
        tag("h3", "Rounds, time and traffic to a target"),
        html_table(titles, rows, label="Cost of a target", class_="parted"),
        paragraph(explained, class_="quiet"),
    ]


def _cost(method: Method, target: float) -> str:
    costs = [cost for each in method.tested if (cost := reached(each.run, target))]
    if not costs:
        return "not reached"
    seconds, traffic = fmean(each.seconds for each in costs), fmean(each.bytes for each in costs)
    some = "" if len(costs) == len(method.replicas) else f" ({len(costs)} of {len(method.replicas)} runs)"
    first, last = min(each.round for each in costs), max(each.round for each in costs)
    when = f"round {first:,}" if first == last else f"rounds {first:,} to {last:,}"
    # A line may end after a comma and nowhere else.
    return Html(
        " ".join(tag("span", each) for each in (f"{when},", f"{duration(seconds)},", byte_text(traffic) + some))
    )
