"""How good is it? The conclusion, then scores, baselines, gains and clients hurt of every method."""

from statistics import fmean

from ...experiment.left_out import left_out_text
from ...formatting import amount, listed
from ..charts.bars import Part, bars
from ..charts.frame import colour
from ..charts.intervals import Interval, intervals
from ..conclusion import conclusions
from ..figure import Section, figure, grid, html_table, key, missing_baselines, not_noted, paragraph, section
from ..markup import Html, join, tag
from ..method import Method
from ..results import SERVES, result_rows, settings_of, titles
from ..scale import axis, score_axis
from ..study import Study

PLACE = 5
LEAST_SHARE = 5.0
"""The percentage that the axis of clients hurt reaches at least: few of many clients can be seen, and look few."""


def headline(study: Study) -> Section:
    if not any(method.summaries for method in study.methods):
        return section("headline", "Result", paragraph("Nothing was evaluated yet.", class_="missing"))
    said = [paragraph(text, class_="conclusion") for text in conclusions(study)]
    cards = _cards(study, study.methods[0]) if len(study.methods) == 1 else Html()
    parts = [content for part in study.by_clients for content in _part(study, part)]
    return section(
        "headline",
        "Result",
        *said,
        *_left_out(study),
        cards,
        *parts,
        paragraph(_explained(study), class_="quiet"),
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


def _part(study: Study, part: Study) -> list[Html]:
    """One set of clients."""
    several = len(study.by_clients) > 1
    name = f"{part.data}, {amount(part.runs[0].record.clients, 'client')}"
    label = f"Test {study.metric.name} of each method" + (f" on {name}" if several else "")
    rows = [
        [_cell(cell, best=place in row.best) if place else cell for place, cell in enumerate(row.cells)]
        for row in result_rows(part)
    ]
    tested = [method for method in (*part.baselines, *part.methods) if method.summaries]
    return [
        *([tag("h3", name)] if several else []),
        html_table(titles(part), rows, label=label, class_="headline"),
        *_baselines(part),
        *_figures(part, tested),
    ]


def _cell(text: str, *, best: bool) -> Html:
    """A line may end before a bracket and nowhere else."""
    before, bracket, after = text.partition(" (")
    kept = [tag("span", before), *([" ", tag("span", f"({after}")] if bracket else [])]
    return tag("strong", *kept, class_="best") if best else join(kept)


def _baselines(study: Study) -> list[Html]:
    """How each baseline was chosen, who is measured against it, and what to know of it."""
    shown = [each for each in study.baselines if each.summaries]
    if not shown and not study.served:
        return []
    users = {
        each.name: [method.name for method in study.methods if each.name in method.against.values()] for each in shown
    }
    everyone = [method.name for method in study.methods]
    rows = [
        [each.name, settings_of(each), "all" if users[each.name] == everyone else ", ".join(users[each.name])]
        for each in shown
    ]
    for reference, name in study.served.items():
        measured = [method.name for method in study.methods if method.against.get(reference) == name]
        others = [each for each in everyone if each != name]
        said = "all others" if measured == others and len(others) > 1 else ", ".join(measured)
        rows.append([reference, SERVES.format(name), said])
    table = html_table(["baseline", "settings", "measured against it"], rows, label="Baselines", class_="text")
    notes = [tag("ul", join(tag("li", note) for note in study.remarks), class_="notes")] if study.remarks else []
    return [tag("h3", "Baselines"), table, *notes]


def _figures(study: Study, tested: list[Method]) -> list[Html]:
    found = [_means(study, tested)] if len(tested) > 1 else []
    known = [name for name in study.references if any(method.over(name) for method in study.methods)]
    hurting = [name for name in known if any(method.hurt_count(name)[0] for method in study.methods)]
    found += [_hurt_shares(study, name) for name in hurting]
    # A chart without a bar would say less.
    sparing = [name for name in known if name not in hurting]
    said = [paragraph(f"No client is hurt against {listed(sparing)}.")] if sparing else []
    return [*([grid(*found)] if found else []), *said]


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
        gain = method.mean_gain(name)
        if gain is not None:
            points = metric.change(gain) + ("" if metric.lower_is_better else " points")
            cards.append((points, f"hurt: {method.hurt_text(name)}" + _per_seed(method), f"against {name}"))
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


def _explained(study: Study) -> str:
    unit = "" if study.metric.lower_is_better else " Gains are in points (of a hundred)."
    seeds = (
        " With several seeds, values are means over them with a 95 % interval (Student's), and each client counts once "
        "for each seed."
        if len(study.seeds) > 1
        else ""
    )
    better = " Less is better." if study.metric.lower_is_better else ""
    marked = (
        " Bold: the best of its column among the methods, which test scores decide; gains over different "
        "baselines have no best."
        if study.methods[1:]
        else ""
    )
    return (
        "Floor: the best constant answer for each client. Mean and spread (standard deviation) are over clients, after "
        "the last round that was evaluated; all samples: of all clients' test samples together; worst decile: the mean "
        "of the worst tenth of clients. Gain: the mean over clients of the difference on the same client. Hurt: "
        "clients that are worse off, by however little; surely: the 95 % interval of the client's own gain is below "
        f"zero{_pairs(study)}.{unit}{seeds}{better}{marked}"
    )


def _pairs(study: Study) -> str:
    """A sentence on what the intervals of clients' gains are computed from."""
    known = {each.paired for method in study.methods for name in study.references for _, each in method.over(name)}
    if known == {True}:
        return ", in pairs of answers to the same test samples"
    return ", where only totals are stored a wider one than pairs of answers would give" if known else ""


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
    """A bar for each method that is measured against the reference: surely and perhaps hurt."""
    names, parts, rows, most = [], [], [], LEAST_SHARE
    for method in study.methods:
        count, total = method.hurt_count(reference)
        if not total:
            continue
        surely = method.surely_count(reference) or 0
        tip = f"{method.name} against {reference}: hurt {method.hurt_text(reference)}"
        names.append(method.name)
        parts.append([Part(100 * surely / total, "hurt", tip), Part(100 * (count - surely) / total, "perhaps", tip)])
        share = 100 * count / total
        most = max(most, share)
        rows.append([method.name, method.hurt_text(reference), f"{share:.{1 if 0 < share < 1 else 0}f} %"])
    legend = key([("hurt", "surely hurt"), ("perhaps", "perhaps")])
    title = f"Clients hurt, against {reference}"
    chart = bars(f"{title}: share by method", axis("% of clients", [0, most]), names, parts)
    note = "Clients whose test score is below that of the baseline."
    return figure(title, chart, ["method", "hurt", "share"], rows, note, legend=legend)


def _gaps(study: Study) -> list[Html]:
    gaps = []
    if not study.having("floor"):
        gaps.append(not_noted("The floor, a constant answer, is not known."))
    if not study.references:
        gaps.append(missing_baselines("There are no baselines (local, global) to compare with."))
    return [join(gaps)]
