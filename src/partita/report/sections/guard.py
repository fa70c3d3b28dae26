"""What does the guard change? Clients hurt without and with it, on test data that it does not use."""

from ...evaluation.analyses.guard import OVER_SEEDS, over_seeds_cells
from ..charts.bars import Part, bars
from ..figure import Section, figure, grid, html_table, key, missing, paragraph, section
from ..markup import Html
from ..scale import axis, count_axis
from ..study import Study

PLACE = 70
TITLE = "The guard"


def guard(study: Study) -> Section:
    found = study.having("guard")
    failed = [
        paragraph(f"No guard for {method.name}: {reasons[0]}", class_="missing")
        for method, reasons in study.having("guard_failed")
        if not method.analyses("guard")
    ]
    if not found:
        gap = failed or [missing("The guard was not run.", "partita guard RUN")]
        return section("guard", TITLE, *gap)
    rows = [[method.name, *over_seeds_cells(values, study.metric)] for method, values in found]
    words = paragraph(
        "For each client the guard takes its personal model, the global model or a mixture, whichever is best on the "
        "client's validation data; clients with few validation samples are drawn towards what is best for all. Hurt: "
        "clients whose test score is below that of the global model."
    )
    hurt = _hurt(study)
    said = [] if hurt else [paragraph("No client is hurt, with the guard or without it.")]
    return section(
        "guard",
        TITLE,
        words,
        html_table(["method", *OVER_SEEDS], rows, label="The guard on test data"),
        *said,
        grid(*hurt, _choices(study)),
        *failed,
    )


def _hurt(study: Study) -> list[Html]:
    """How many are hurt without and with it, by the methods that hurt any; an empty row would say less."""
    names, parts, rows = [], [], []
    for method, values in study.having("guard"):
        counts = [sum(value[key] for value in values) for key in ("hurt_before", "hurt_after")]
        if not any(counts):
            continue
        names += [method.name, "with the guard"]
        parts += [
            [Part(count, class_, f"{method.name}, {said} the guard: {count:,} hurt")]
            for count, class_, said in zip(counts, ("hurt", "c0"), ("without", "with"), strict=True)
        ]
        rows.append([method.name, *(f"{count:,}" for count in counts)])
    if not rows:
        return []
    x = count_axis("clients hurt", (part.value for several in parts for part in several))
    chart = bars("Clients hurt with and without the guard", x, names, parts)
    note = "Against the global model" + (", each client once for each seed." if len(study.seeds) > 1 else ".")
    legend = key([("hurt", "without the guard"), ("c0", "with it")])
    return [figure("Clients hurt", chart, ["method", "without the guard", "with it"], rows, note, legend=legend)]


def _choices(study: Study) -> Html:
    """How often each mixture was chosen."""
    names, parts, rows = [], [], []
    for method, values in study.having("guard"):
        chosen = [weight for value in values for weight in value["chosen"]]
        weights = sorted({weight for value in values for weight in value["weights"]})
        counts = [sum(abs(each - weight) < 1e-9 for each in chosen) for weight in weights]
        names.append(method.name)
        parts.append(
            [
                Part(
                    100 * count / max(len(chosen), 1),
                    f"blend{round(4 * weight)}",
                    f"{method.name}, weight {weight:g} of the personal model: {count:,} clients",
                )
                for weight, count in zip(weights, counts, strict=True)
            ]
        )
        rows += [[method.name, f"{weight:g}", f"{count:,}"] for weight, count in zip(weights, counts, strict=True)]
    chart = bars(
        "Share of clients by the weight that the guard gives their personal model",
        axis("% of clients", [0, 100]),
        names,
        parts,
    )
    note = "The weight of the personal model in the mixture."
    legend = key([("blend0", "0: global"), ("blend2", "0.5: half"), ("blend4", "1: personal")])
    return figure("What the guard chose", chart, ["method", "weight", "clients"], rows, note, legend=legend)
