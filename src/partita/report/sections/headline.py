"""How good is it? One table with the floor and the baselines, and the same as a chart."""

from statistics import fmean, pstdev

from ...formatting import NONE, amount, byte_text
from ...simulation.left_out import left_out_text
from ..charts.bars import Part, bars
from ..charts.frame import colour
from ..charts.intervals import Interval, intervals
from ..figure import Section, figure, grid, html_table, missing_baselines, not_noted, paragraph, section
from ..markup import Html, join, tag
from ..scale import axis, score_axis
from ..study import Method, Study

PLACE = 20


def headline(study: Study) -> Section:
    tested = [method for method in (*study.baselines, *study.methods) if method.summaries]
    if not any(method.summaries for method in study.methods):
        return section("headline", "Result", paragraph("Nothing was evaluated yet.", class_="missing"))
    cards = _cards(study, study.methods[0]) if len(study.methods) == 1 else Html()
    titles, rows = _rows(study, tested)
    shown = html_table(titles, rows, label=f"Test {study.metric.name} of each method", class_="headline")
    return section(
        "headline",
        "Result",
        *_left_out(study),
        cards,
        shown,
        paragraph(_explained(study), class_="quiet"),
        *_figures(study, tested),
        *_gaps(study),
    )


def _left_out(study: Study) -> list[Html]:
    """Clients whose rounds were dropped, of every run: no result without this."""
    texts = [
        f"{method.name}, seed {each.run.seed}: {text}"
        for method in (*study.methods, *study.baselines)
        for each in method.replicas
        if (text := left_out_text(each.run.left_out))
    ]
    return [paragraph(text, class_="missing") for text in texts]


def _figures(study: Study, tested: list[Method]) -> list[Html]:
    found = [_means(study, tested)] if len(tested) > 1 else []
    known = (name for name in study.references if any(method.over(name) for method in study.methods))
    found += [_hurt_shares(study, name) for name in known]
    return [grid(*found)] if found else []


def _cards(study: Study, method: Method) -> Html:
    """The figures that matter most, large."""
    metric, summaries = study.metric, method.summaries
    clients = amount(summaries[0].clients, "client") + (f", {len(summaries)} seeds" if len(summaries) > 1 else "")
    mean, std = fmean(each.macro for each in summaries), fmean(each.std for each in summaries)
    cards = [
        (metric.text(mean), f"± {metric.text(std)} over {clients}", f"mean test {metric.name}"),
        (
            metric.text(fmean(each.worst_decile for each in summaries)),
            "mean of the worst tenth of clients",
            "worst decile",
        ),
    ]
    for name in study.references[:2]:
        gain, (count, total) = method.mean_gain(name), method.hurt_count(name)
        if gain is not None:
            points = metric.change(gain) + ("" if metric.lower_is_better else " points")
            cards.append((points, f"{count} of {total} worse off" + _per_seed(method), f"against {name}"))
    return tag(
        "div",
        *(
            tag(
                "div",
                tag("span", what, class_="what"),
                tag("strong", value),
                tag("span", how, class_="how"),
                class_="card",
            )
            for value, how, what in cards
        ),
        class_="cards",
    )


def _per_seed(method: Method) -> str:
    return " (over all seeds)" if len(method.summaries) > 1 else ""


def _rows(study: Study, tested: list[Method]) -> tuple[list[str], list[list[str]]]:
    metric = study.metric
    many = any(len(method.summaries) > 1 for method in tested)
    titles = ["method", "mean ± over clients", *(["± over seeds"] if many else []), "all samples", "worst decile"]
    titles += [f"gain over {name}" for name in study.references]
    titles += [f"hurt, against {name}" for name in study.references] + ["per round"]
    rows = [floor] if (floor := _floor(study, len(titles), many)) else []
    for method in tested:
        summaries = method.summaries
        macros = [each.macro for each in summaries]
        row = [_named(method, study), metric.spread(fmean(macros), fmean(each.std for each in summaries))]
        row += [metric.change(pstdev(macros)).lstrip("+") if len(macros) > 1 else NONE] if many else []
        row += [
            metric.text(fmean(each.micro for each in summaries)),
            metric.text(fmean(each.worst_decile for each in summaries)),
        ]
        gains = [method.mean_gain(name) for name in study.references]
        row += [NONE if gain is None else metric.change(gain) for gain in gains]
        row += [_hurt(method, name) for name in study.references]
        row.append(byte_text(fmean(each.run.bytes_per_round for each in method.replicas)))
        rows.append(row)
        rows += _newcomers(method, study, len(titles), many)
    return titles, rows


def _named(method: Method, study: Study) -> str:
    marks = [] if method in study.methods else ["baseline"]
    if not all(each.run.finished for each in method.replicas):
        marks.append("not finished")
    if any(each.run.record.oracle_validation for each in method.replicas):
        marks.append("oracle")
    return f"{method.name} ({', '.join(marks)})" if marks else method.name


def _hurt(method: Method, reference: str) -> str:
    count, total = method.hurt_count(reference)
    return f"{count} of {total}" if total else NONE


def _floor(study: Study, width: int, many: bool) -> list[str] | None:
    """The row of the floor, on the clients that were tested; the score of all samples only if these are all clients."""
    if not study.floors:
        return None
    metric, floors = study.metric, [each for _, each in study.floors]
    row = ["floor", metric.spread(fmean(each.macro for each in floors), fmean(pstdev(each.others) for each in floors))]
    known = [run.analyses["floor"] for run, _ in study.floors]
    whole = [len(each.clients) for each in floors] == [len(value["clients"]) for value in known]
    row += [*([NONE] if many else []), metric.text(fmean(value["micro"] for value in known)) if whole else NONE]
    return row + [NONE] * (width - len(row))


def _newcomers(method: Method, study: Study, width: int, many: bool) -> list[list[str]]:
    found = [summary for each in method.tested if (summary := each.run.summaries(newcomers=True).get(each.variant))]
    if not found:
        return []
    metric = study.metric
    row = [
        f"{method.name}, new clients",
        metric.spread(fmean(each.macro for each in found), fmean(each.std for each in found)),
    ]
    row += [
        *([NONE] if many else []),
        metric.text(fmean(each.micro for each in found)),
        metric.text(fmean(each.worst_decile for each in found)),
    ]
    return [row + [NONE] * (width - len(row))]


def _explained(study: Study) -> str:
    unit = "" if study.metric.lower_is_better else " Gains are in points (of a hundred)."
    seeds = (
        " With several seeds, values are means over them, and each client counts once for each seed."
        if len(study.seeds) > 1
        else ""
    )
    better = " Less is better." if study.metric.lower_is_better else ""
    return (
        "Floor: the best constant answer for each client. Mean and spread (standard deviation) are over clients, after "
        "the last round that was evaluated; all samples: "
        "of all clients' test samples together; worst decile: the mean of the worst tenth of clients. Gain: the mean "
        f"over clients of the difference on the same client. Hurt: clients that are worse off.{unit}{seeds}{better}"
    )


def _means(study: Study, tested: list[Method]) -> Html:
    metric = study.metric
    several = []
    for method in tested:
        mean, std = fmean(each.macro for each in method.summaries), fmean(each.std for each in method.summaries)
        worst = fmean(each.worst_decile for each in method.summaries)
        tip = f"{method.name}: {metric.spread(mean, std)}, worst decile {metric.text(worst)}"
        class_ = colour(method.number) if method in study.methods else "quiet"
        several.append(Interval(method.name, mean, mean - std, mean + std, class_, tip, marked=worst))
    values = [value for each in several for value in (each.low, each.high, each.marked or each.middle)]
    x = score_axis(metric, values)
    rows = [
        [each.name, *map(metric.text, (each.middle, each.middle - each.low, each.marked or 0.0))] for each in several
    ]
    chart = intervals(f"Mean test {metric.name} of each method with its spread over clients", x, several)
    note = "Dot: mean over clients. Line: one standard deviation to each side. Upright mark: worst decile."
    return figure("Means and spread", chart, ["method", "mean", "spread", "worst decile"], rows, note)


def _hurt_shares(study: Study, reference: str) -> Html:
    """One bar for each method that is measured against the reference."""
    counts = [(method.name, *found) for method in study.methods if (found := method.hurt_count(reference))[1]]
    parts = [
        [Part(100 * count / total, "hurt", f"{name}: {count} of {total} are worse off than with {reference}")]
        for name, count, total in counts
    ]
    rows = [[name, f"{count} of {total}", f"{100 * count / total:.0f} %"] for name, count, total in counts]
    x = axis("% of clients", [0, 100])
    title = f"Clients hurt, against {reference}"
    chart = bars(f"{title}: share by method", x, [name for name, _, _ in counts], parts)
    note = "Clients whose test score is below that of the baseline."
    return figure(title, chart, ["method", "hurt", "share"], rows, note)


def _gaps(study: Study) -> list[Html]:
    gaps = []
    if not study.having("floor"):
        gaps.append(not_noted("The floor, a constant answer, is not known."))
    if not study.references:
        gaps.append(missing_baselines("There are no baselines (local, global) to compare with."))
    return [join(gaps)]
