"""How does each client fare? By name, with its score under every method, and which of them hurt it."""

from statistics import fmean

from ...evaluation.gains import SeedsGain, Verdict
from ...evaluation.metric import Metric
from ...formatting import NONE, amount
from ..conclusion import best_baseline
from ..figure import Section, html_table, paragraph, section
from ..markup import Html, join, tag
from ..method import Method
from ..study import Study

PLACE = 45
MOST_ROWS, MOST_PRINTED = 300, 60
"""The most rows on the page, and on paper, where the style sheet leaves out further ones."""
FEW_COLUMNS = 5
"""With more methods and baselines than this, their names stand upright, so that all columns fit on the page."""
SIGNS: dict[Verdict, str] = {
    "surely": "\N{BLACK DOWN-POINTING TRIANGLE}",
    "perhaps": "\N{WHITE DOWN-POINTING TRIANGLE}",
    "not": "",
}


def clients(study: Study) -> Section | None:
    if not any(method.summaries for method in study.methods):
        return None
    parts = [content for part in study.by_clients for content in _part(study, part)]
    return section("clients", "Clients by name", *parts)


def _part(study: Study, part: Study) -> list[Html]:
    shown = [method for method in (*part.baselines, *part.methods) if method.summaries]
    scores = {method.name: _scores(method) for method in shown}
    reference = best_baseline(part)
    gains = {method.name: method.by_client(reference) if reference else {} for method in part.methods}
    run = next(method for method in part.methods if method.summaries).run
    lead = {client: _lead(gains, client) for client in sorted(set().union(*scores.values()))}
    ordered = sorted(lead, key=lambda client: (lead[client] is None, lead[client] or 0.0, client))
    counts = run.test_counts
    rows = [
        [
            run.record.name_of(client),
            f"{counts.get(client, 0):,}",
            *_cells(part, shown, scores, gains, client),
            *([_hurt(study.metric, gains, client)] if reference else []),
        ]
        for client in ordered[:MOST_ROWS]
    ]
    titles = ["client", "test samples", *(_title(part, method) for method in shown)]
    if reference:
        single = len(part.methods) == 1
        titles.append(f"gain over {reference} (95 %), hurt" if single else f"hurt, against {reference}")
    several = len(study.by_clients) > 1
    table = html_table(
        titles,
        rows,
        label=f"Test {study.metric.name} by client" + (f", {part.data}" if several else ""),
        class_="upright" if len(shown) > FEW_COLUMNS else None,
    )
    return [
        *([tag("h3", part.data)] if several else []),
        tag("div", table, class_="long"),
        paragraph(_explained(part, reference, len(ordered)), class_="quiet"),
    ]


def _explained(study: Study, reference: str | None, total: int) -> str:
    unit = "" if study.metric.lower_is_better else ", in %"
    said = [f"Test {study.metric.name}{unit}" + (", means over seeds." if len(study.seeds) > 1 else ".")]
    if len(study.methods) > 1:
        said.append("Bold: the best method for the client.")
        if reference:
            said.append(f"{SIGNS['surely']} surely and {SIGNS['perhaps']} perhaps hurt, against {reference}.")
    if reference:
        said.append(f"The clients that lose most against {reference} come first.")
        if len(study.seeds) > 1:
            said.append(
                "Hurt refers here to the mean gain over seeds, whose interval covers chance in test samples and in "
                "seeds."
            )
    if total > MOST_PRINTED:
        said.append(f"On paper, the first {MOST_PRINTED}.")
    if total > MOST_ROWS:
        said.append(f"The first {MOST_ROWS} of {amount(total, 'client')}; partita export RUN --csv FOLDER writes all.")
    return " ".join(said)


def _cells(
    study: Study,
    shown: list[Method],
    scores: dict[str, dict[int, float]],
    gains: dict[str, dict[int, SeedsGain]],
    client: int,
) -> list[str]:
    """The score under each baseline and method, with signs of the best and of those that hurt the client."""
    own = [scores[m.name][client] for m in study.methods if client in scores.get(m.name, {})]
    best = max(own, key=lambda score: study.metric.gain(score, 0.0)) if len(own) > 1 else None
    cells: list[str] = []
    for method in shown:
        score = scores[method.name].get(client)
        if score is None:
            cells.append(NONE)
            continue
        text: str = study.metric.number(score)
        if method in study.methods and score == best:
            text = tag("strong", text, class_="best")
        if method in study.methods and len(study.methods) > 1:
            found = gains[method.name].get(client)
            # An empty sign keeps its place, so that numbers stand below each other.
            text = join([text, tag("span", SIGNS[found.verdict] if found else "", class_="sign")])
        cells.append(text)
    return cells


def _title(study: Study, method: Method) -> str:
    return method.name if method in study.methods else f"{method.name} (baseline)"


def _scores(method: Method) -> dict[int, float]:
    found: dict[int, list[float]] = {}
    for (_, client), score in method.scores.items():
        found.setdefault(client, []).append(score)
    return {client: fmean(values) for client, values in found.items()}


def _lead(gains: dict[str, dict[int, SeedsGain]], client: int) -> float | None:
    """The client's mean gain over methods."""
    known = [each[client].mean for each in gains.values() if client in each]
    return fmean(known) if known else None


def _hurt(metric: Metric, gains: dict[str, dict[int, SeedsGain]], client: int) -> str:
    """The number of methods that hurt the client; of a single method, also by how much."""
    found = [each[client] for each in gains.values() if client in each]
    if not found:
        return NONE
    if len(gains) == 1:
        [only] = found
        return f"{metric.change_within(only.mean, only.interval)}, {only.verdict}"
    counts = {word: sum(each.verdict == word for each in found) for word in ("surely", "perhaps")}
    # A line may end between them and nowhere else.
    hurting = [tag("span", f"{word} by {count}") for word, count in counts.items() if count]
    return Html(", ".join(hurting)) if hurting else "by none"
