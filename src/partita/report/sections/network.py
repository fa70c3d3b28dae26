"""What is shared and what is personal? The partition of the network."""

from typing import Any

from ...formatting import NONE, byte_text
from ..charts.bars import Part, bars
from ..figure import Section, details, figure, key, not_noted, section
from ..markup import Html, join, tag
from ..scale import axis
from ..study import Study

PLACE = 90
TITLE = "Partition of the network"
KINDS = {
    "shared": "shared",
    "personal": "personal",
    "frozen-shared": "shared, not trained in a round",
    "frozen-personal": "personal, not trained in a round",
}


def network(study: Study) -> Section:
    found = [(method.name, values[0]) for method, values in study.having("network")]
    if not found:
        return section("network", TITLE, not_noted("What is shared and what is personal was not recorded."))
    names = [name for name, _ in found]
    counts = [_counts(value) for _, value in found]
    parts = [_parts(name, each) for name, each in zip(names, counts, strict=True)]
    rows = [
        [
            name,
            f"{sum(each.values()):,}",
            f"{each['shared'] + each['frozen-shared']:,}",
            f"{each['personal'] + each['frozen-personal']:,}",
            f"{each['frozen-shared'] + each['frozen-personal']:,}",
            byte_text(value["bytes_down"]),
            byte_text(value["bytes_up"]),
        ]
        for (name, value), each in zip(found, counts, strict=True)
    ]
    titles = ["method", "values", "shared", "personal", "frozen", "down", "up, at most"]
    x = axis("% of values", [0, 100])
    legend = key(
        [
            (kind, said)
            for kind, said in KINDS.items()
            if any(part.class_ == kind and part.value for each in parts for part in each)
        ]
    )
    note = (
        "All values that a client holds, also of a second network beside the received one. Frozen: not trained in a "
        "round, be they shared or personal. Down and up: bytes of one client and round."
    )
    chart = bars("Share of values that are shared, personal and frozen", x, names, parts)
    made = figure("Shared, personal, frozen", chart, titles, rows, note, legend=legend, beside=True)
    return section("network", TITLE, made, *(_tensors(name, value) for name, value in found))


def _counts(found: dict[str, Any]) -> dict[str, int]:
    """How many values are of each kind; each value counts once."""
    counts = dict.fromkeys(KINDS, 0)
    for row in found["rows"]:
        kind = "shared" if row["shared"] else "personal"
        counts[kind if row["trained_in"] else f"frozen-{kind}"] += row["parameters"]
    return counts


def _parts(name: str, counts: dict[str, int]) -> list[Part]:
    whole = sum(counts.values()) or 1
    return [
        Part(100 * count / whole, kind, f"{name}: {count:,} values {KINDS[kind]}") for kind, count in counts.items()
    ]


def _tensors(name: str, found: dict[str, Any]) -> Html:
    rows = [
        [
            row["name"],
            " x ".join(map(str, row["shape"])) or "scalar",
            f"{row['parameters']:,}",
            "shared" if row["shared"] else "personal",
            "yes" if row["kept"] else NONE,
            ", ".join(map(str, row["trained_in"])) or "frozen",
        ]
        for row in found["rows"]
    ]
    stages = [*found["stages"], *(f"before use: {stage}" for stage in found.get("finetune", ()))]
    titles = ["tensor", "shape", "values", "part", "kept by the client", "trained in phase"]
    return join(
        [
            tag("h3", name),
            tag("ol", *(tag("li", stage) for stage in stages)),
            details(f"Tensors of {name}", titles, rows),
        ]
    )
