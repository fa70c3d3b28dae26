"""Who has which data? Labels and samples by client."""

from collections.abc import Callable, Sequence
from typing import Any

from ..charts.grid import Cell, grid as cells
from ..charts.histogram import bins, histogram
from ..figure import Section, figure, grid, not_noted, section
from ..markup import Html
from ..sampling import evenly, part_shown
from ..scale import axis
from ..study import Study

PLACE = 80
MOST_CELLS = 2400
MOST_CLIENTS = 60
MOST_CLASSES = 50
"""If there are more labels, several consecutive ones share a row."""
ROLES = ("train", "validation", "test")
TITLE = "Labels over clients"


def labels(study: Study) -> Section | None:
    found = study.having("labels")
    if study.metric.lower_is_better:
        return None
    if not found:
        return section("labels", TITLE, not_noted("Labels were not counted."))
    # Methods that are compared share their division.
    method, (first, *_) = found[0]
    return section("labels", TITLE, grid(_cells(first, method.run.record.name_of), _sizes(first)))


def _cells(found: dict[str, Any], name_of: Callable[[int], str]) -> Html:
    """All roles together."""
    counts = [
        [sum(roles) for roles in zip(*rows, strict=True)] for rows in zip(*(found[role] for role in ROLES), strict=True)
    ]
    labels = found.get("names") or [str(each) for each in range(found["classes"])]
    step = -(-len(labels) // MOST_CLASSES)
    names, folded = _folded(labels, counts, step)
    places = evenly(range(len(folded)), min(MOST_CLIENTS, max(MOST_CELLS // len(names), 10)))
    most = max(max(row) for row in folded) or 1
    clients = [name_of(found["clients"][place]) for place in places]
    # By the root, so that small counts can still be told from none.
    drawn = [
        [
            Cell(
                (folded[place][row] / most) ** 0.5,
                f"client {client}, label {name}: {folded[place][row]:,} samples",
            )
            for client, place in zip(clients, places, strict=True)
        ]
        for row, name in enumerate(names)
    ]
    note = "The stronger the colour, the more samples (training, validation and test). "
    if step > 1:
        note += f"Of {len(labels):,} labels, {step} in succession share a row, which has the name of the first. "
    note += part_shown(len(places), len(folded), "clients")
    rows = [
        [clients[column], *(f"{folded[place][row]:,}" for row in range(len(names)))]
        for column, place in enumerate(places)
    ]
    chart = cells("Samples of each label at each client", clients, labels[::step], drawn, "client", "label")
    return figure(
        "Samples by label and client", chart, ["client", *(f"label {name}" for name in names)], rows, note.strip()
    )


def _folded(labels: Sequence[str], counts: Sequence[Sequence[int]], step: int) -> tuple[list[str], list[list[int]]]:
    """Names and counts of the rows: of one label each, or of several in succession."""
    starts = range(0, len(labels), step)
    names = [labels[at] if step == 1 else f"{labels[at]} to {labels[min(at + step, len(labels)) - 1]}" for at in starts]
    return names, [[sum(row[at : at + step]) for at in starts] for row in counts]


def _sizes(found: dict[str, Any]) -> Html:
    sizes = [sum(row) for row in found["train"]]
    made = bins(sizes, whole=True)
    kinds = [sum(count > 0 for count in row) for row in found["train"]]
    x = axis("training samples", [made[0].low, made[-1].high], whole=True)
    rows = [[f"{x.text(each.low)} to {x.text(each.high)}", f"{each.count:,}"] for each in made]
    note = f"{_span(sizes)} training samples and {_span(kinds)} of {found['classes']:,} labels to a client."
    chart = histogram("How many clients have how many training samples", x, made, "clients", signed=False)
    return figure("Training samples of a client", chart, ["training samples", "clients"], rows, note)


def _span(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
