"""How does each client fare? By name, with its score under every method and whom it would rather have."""

from statistics import fmean

from ...formatting import NONE
from ..figure import Section, html_table, paragraph, section
from ..markup import Html, tag
from ..method import Method
from ..study import Study

PLACE = 45
MOST_ROWS = 300


def clients(study: Study) -> Section | None:
    if not any(method.summaries for method in study.methods):
        return None
    parts = [content for part in study.by_clients for content in _part(study, part)]
    return section("clients", "Clients by name", *parts)


def _part(study: Study, part: Study) -> list[Html]:
    metric = study.metric
    shown = [method for method in (*part.baselines, *part.methods) if method.summaries]
    known = {method.name: _by_client(method) for method in shown}
    run = next(method for method in part.methods if method.summaries).run
    reference = "global" if "global" in part.references else next(iter(part.references), None)
    gained = _gained(part, reference)
    lead = {client: gained.get(client) for client in sorted(set().union(*known.values()))}
    ordered = sorted(lead, key=lambda client: (lead[client] is None, lead[client] or 0.0, client))
    counts = run.test_counts
    rows = []
    for client in ordered[:MOST_ROWS]:
        scores = [known[method.name].get(client) for method in shown]
        own = [known[m.name][client] for m in part.methods if client in known.get(m.name, {})]
        best = max(own, key=lambda score: metric.gain(score, 0.0)) if len(own) > 1 else None
        cells = [
            NONE if score is None else _cell(metric.text(score), method in part.methods and score == best)
            for method, score in zip(shown, scores, strict=True)
        ]
        verdict = [_verdict(part, reference, client)] if reference else []
        rows.append([run.record.name_of(client), f"{counts.get(client, 0):,}", *cells, *verdict])
    titles = ["client", "test samples", *(_title(part, method) for method in shown)]
    titles += [f"hurt, against {reference}"] if reference else []
    several = len(study.by_clients) > 1
    table = html_table(titles, rows, label=f"Test {metric.name} by client" + (f", {part.data}" if several else ""))
    said = "Test scores, means over seeds. Bold: the best method for the client. " if len(part.methods) > 1 else ""
    said += f"Those that lose most against {reference} come first. " if reference else ""
    if len(ordered) > MOST_ROWS:
        said += f"The first {MOST_ROWS} of {len(ordered):,} clients; partita export RUN --csv FOLDER writes all. "
    return [
        *([tag("h3", part.data)] if several else []),
        tag("div", table, class_="long"),
        paragraph(said, class_="quiet"),
    ]


def _cell(text: str, best: bool) -> str:
    return tag("strong", text, class_="best") if best else text


def _title(study: Study, method: Method) -> str:
    return method.name if method in study.methods else f"{method.name} (baseline)"


def _by_client(method: Method) -> dict[int, float]:
    found: dict[int, list[float]] = {}
    for (_, client), score in method.scores.items():
        found.setdefault(client, []).append(score)
    return {client: fmean(values) for client, values in found.items()}


def _gained(study: Study, reference: str | None) -> dict[int, float]:
    """Each client's mean gain over methods and seeds."""
    found: dict[int, list[float]] = {}
    for method in study.methods:
        for _, gain in method.over(reference) if reference else []:
            for client, value in zip(gain.clients, gain.gains, strict=True):
                found.setdefault(client, []).append(value)
    return {client: fmean(values) for client, values in found.items()}


def _verdict(study: Study, reference: str, client: int) -> str:
    """By which methods, of those that are measured against the reference; under any seed."""
    found: dict[str, list[str]] = {}
    for method in study.methods:
        verdicts = {gain.verdict(client) for _, gain in method.over(reference) if client in gain.clients}
        for word in ("surely", "perhaps"):
            if word in verdicts:
                found.setdefault(word, []).append(method.name)
                break
    if len(study.methods) == 1:
        return next(iter(found), "not")
    return "; ".join(f"{word} by {', '.join(names)}" for word, names in found.items()) or "by none"
