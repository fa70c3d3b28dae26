"""What does personalization add? Fine-tuning by part, accuracy without the head, classes inside and outside."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from ...formatting import NONE
from ..charts.lines import Line, lines
from ..figure import Section, figure, grid, missing, section, table
from ..markup import Html, tag
from ..scale import Axis, score_axis, whole_axis
from ..study import Method, Study

PARTS = ("head", "body", "full")
TITLE = "Fine-tuning, heads and classes"
COMMAND = "partita evaluate RUN"


def personalization(study: Study) -> Section:
    content = [*_finetuning(study)]
    if heads := study.having("without_head"):
        rows = [
            [method.name, *(_spread(study, values, key) for key in ("with_head", "cosine", "euclidean"))]
            for method, values in heads
        ]
        titles = ["method", "with its head", "nearest template, cosine", "nearest template, Euclidean"]
        content += [tag("h3", "Accuracy without the head"), table(titles, rows, label="Accuracy without the head")]
        content.append(
            tag(
                "p",
                "A test sample is answered by the class whose mean feature is nearest: what the body alone knows.",
                class_="quiet",
            )
        )
    else:
        content.append(missing("Accuracy without the head was not measured.", COMMAND))
    if sides := study.having("inside_outside"):
        rows = [
            [method.name, *(_spread(study, values, key) for key in ("inside", "outside"))] for method, values in sides
        ]
        titles = ["method", "classes it trained on", "other classes"]
        content += [
            tag("h3", "Classes inside and outside a client's data"),
            table(titles, rows, label="Classes inside and outside"),
        ]
        content.append(
            tag(
                "p",
                "On test samples of all evaluated clients: what a model still knows of what its client never sees.",
                class_="quiet",
            )
        )
    else:
        content.append(missing("Classes inside and outside a client's data were not told apart.", COMMAND))
    return section("personalization", TITLE, *content)


def _spread(study: Study, values: Sequence[Mapping[str, Any]], key: str) -> str:
    known = [value[key] for value in values if value.get(key)]
    if not known:
        return NONE
    return study.metric.spread(fmean(each["macro"] for each in known), fmean(each["std"] for each in known))


def _finetuning(study: Study) -> list[Html]:
    measured = [(method, series) for method, several in study.having("finetuning") if (series := _curves(several))]
    if not measured:
        return [missing("Fine-tuning by part (head, body, full) was not measured.", COMMAND)]
    values = [mean for _, series in measured for each in series.values() for _, mean, _ in each]
    y = score_axis(study.metric, values)
    return [tag("h3", "Fine-tuning by part"), grid(*(_figure(study, method, series, y) for method, series in measured))]


def _curves(several: Sequence[Mapping[str, Any]]) -> dict[str, list[tuple[int, float, float]]]:
    """By part: epochs, and the means over runs of mean and spread over clients; none where there are no test data."""
    found: dict[str, list[tuple[int, float, float]]] = {}
    epochs = several[0]["epochs"]
    for part in PARTS:
        known = [value["parts"][part] for value in several if part in value["parts"] and value["epochs"] == epochs]
        for place, epoch in enumerate(epochs):
            means = [each["macro"][place] for each in known if each["macro"][place] is not None]
            stds = [each["std"][place] for each in known if each["std"][place] is not None]
            if means:
                found.setdefault(part, []).append((epoch, fmean(means), fmean(stds)))
    return found


def _figure(study: Study, method: Method, found: Mapping[str, Sequence[tuple[int, float, float]]], y: Axis) -> Html:
    metric = study.metric
    series = [
        Line(part, [(epoch, mean) for epoch, mean, _ in found[part]], number)
        for number, part in enumerate(PARTS)
        if part in found
    ]
    rows = [[part, str(epoch), metric.spread(mean, std)] for part, each in found.items() for epoch, mean, std in each]
    last = max(epoch for each in found.values() for epoch, _, _ in each)
    label = f"{method.name}: test {metric.name} over epochs of fine-tuning, by part"
    chart = lines(label, whole_axis("epoch", 0, last), y, series)
    runs = method.analyses("finetuning")
    note = f"Mean over {len(runs[0]['clients'])} clients" + (f" and {len(runs)} seeds." if len(runs) > 1 else ".")
    return figure(method.name, chart, ["part", "epoch", f"{metric.name} ± over clients"], rows, note)
