"""Who is worse off? Clients that a baseline would serve better, and the worst decile."""

from ...evaluation.scores import tenth
from ...formatting import NONE
from ..figure import Section, details, html_table, missing_baselines, section
from ..markup import Html, tag
from ..method import Method
from ..study import Study

PLACE = 60
MOST_ROWS = 200


def hurt(study: Study) -> Section | None:
    tested = [method for method in study.methods if method.summaries]
    if not tested:
        return None
    content = [*_shares(study, tested), _worst(study, tested)]
    return section("hurt", "Clients hurt, and the worst decile", *content)


def _shares(study: Study, tested: list[Method]) -> list[Html]:
    if not study.references:
        return [missing_baselines("Whom a method hurts is known only against baselines.")]
    rows = []
    for method in tested:
        row = [method.name]
        for name in study.references:
            row.append(method.hurt_text(name) if method.over(name) else NONE)
        rows.append(row)
    titles = ["method", *(f"worse than {name}" for name in study.references)]
    lists = [_list(study, name) for name in study.references if any(method.hurt_count(name)[0] for method in tested)]
    return [html_table(titles, rows, label="Clients hurt"), *lists]


def _list(study: Study, reference: str) -> Html:
    metric = study.metric
    found = [
        (gain, interval, method.name, run, client, score, other, each.verdict(client))
        for method in study.methods
        for run, each in method.over(reference)
        for hurt in [frozenset(each.hurt)]
        for client, gain, interval, score, other in zip(
            each.clients, each.gains, each.intervals, each.scores, each.others, strict=True
        )
        if client in hurt
    ]
    found.sort(key=lambda each: each[0])
    rows = [
        [
            run.record.name_of(client),
            name,
            str(run.seed),
            f"{run.tested()[client].count:,}",
            metric.text(score),
            metric.text(other),
            metric.change_within(gain, interval),
            verdict,
        ]
        for gain, interval, name, run, client, score, other, verdict in found[:MOST_ROWS]
    ]
    more = f"; the {MOST_ROWS} that lose most" if len(found) > MOST_ROWS else ""
    titles = ["client", "method", "seed", "test samples", "score", reference, "change (95 %)", "hurt"]
    return details(f"Who is worse than {reference} ({len(found):,}{more})", titles, rows)


def _worst(study: Study, tested: list[Method]) -> Html:
    """The clients of the worst decile of each method, by seed."""
    metric = study.metric
    rows = []
    for method in tested:
        for each in method.tested:
            ordered = sorted(each.last.values(), key=lambda record: record.score, reverse=metric.lower_is_better)
            rows += [
                [
                    method.name,
                    str(each.run.seed),
                    each.run.record.name_of(record.client),
                    f"{record.count:,}",
                    metric.text(record.score),
                ]
                for record in tenth(ordered)
            ]
    shown = rows[:MOST_ROWS]
    more = f", the first {MOST_ROWS} of {len(rows):,}" if len(rows) > MOST_ROWS else ""
    return tag(
        "div",
        details(f"The worst tenth of clients{more}", ["method", "seed", "client", "test samples", "score"], shown),
    )
