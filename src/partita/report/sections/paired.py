"""Is one method better than another? Differences on the same clients and seeds, with intervals and tests."""

from ...evaluation.comparison import Comparison, Difference, compare
from ...formatting import NONE
from ..charts.frame import colour
from ..charts.intervals import Interval, intervals
from ..figure import Section, figure, paragraph, section
from ..markup import Html, join, tag
from ..method import Method
from ..results import named
from ..scale import axis
from ..study import Study

PLACE = 30
FIRST = ("fedavg", "local")
"""Methods that others are compared with, where they are there."""


def paired(study: Study) -> Section | None:
    """The paired comparison; None if there is only one method."""
    if len(study.methods) < 2:
        return None
    parts = study.by_clients
    content = [each for part in parts for each in ([tag("h3", part.data)] if len(parts) > 1 else []) + _part(part)]
    return section("paired", "Differences between methods", *content)


def _part(study: Study) -> list[Html]:
    """The methods on one set of clients."""
    done = [method for method in study.methods if all(each.run.finished and each.last for each in method.replicas)]
    against = next((method for name in FIRST for method in done if method.name == name), done[0] if done else None)
    if against is None or len(done) < 2:
        text = "Fewer than two of these methods are finished on the same clients and seeds."
        return [paragraph(text, class_="missing")]
    made = compare(
        {method.name: method.scores for method in done if method.scores.keys() & against.scores.keys()},
        baseline=against.name,
        lower_is_better=study.metric.lower_is_better,
    )
    return _shown(study, made, {each.name: each for each in done})


def _shown(study: Study, made: Comparison, methods: dict[str, Method]) -> list[Html]:
    said = study.metric.change

    def row(each: Difference) -> list[str]:
        within = f"[{', '.join(map(said, each.interval))}]" if each.interval else NONE
        tested = ["<0.001" if p < 0.001 else f"{p:.3f}" for p in (each.p, each.corrected)]
        name = named(methods[each.method])
        return [name, said(each.mean), within, *tested, f"{each.wins:,} / {each.ties:,} / {each.losses:,}"]

    rows = [row(each) for each in made.differences]
    level = f"{100 * made.level:g} %"
    several = [
        Interval(
            each.method,
            each.mean,
            *(each.interval or (each.mean, each.mean)),
            colour(methods[each.method].number),
            f"{line[0]}: {line[1]} {line[2]}, corrected p {line[4]}",
        )
        for each, line in zip(made.differences, rows, strict=True)
    ]
    unit = study.metric.name if study.metric.lower_is_better else "points"
    x = axis(
        f"difference to {made.baseline}, {unit}",
        [0, *(end for each in several for end in (each.low, each.high))],
        study.metric.tick,
    )
    better = "Less is better. " if made.lower_is_better else ""
    titles = ["method", "difference", f"{level} interval", "p", "p (Holm)", "win / tie / loss"]
    chart = intervals(f"Difference of each method to {made.baseline} with {level} interval", x, several, marked=0)
    drawn = f"Line: {level} interval from redrawn clients and seeds."
    note = f"{better}{drawn} Wins are clients, each the mean over its seeds."
    notes = [tag("ul", join(tag("li", note) for note in made.notes), class_="notes")] if made.notes else []
    return [
        figure(f"Difference to {made.baseline}, on the same clients", chart, titles, rows, note, beside=True),
        *notes,
    ]
