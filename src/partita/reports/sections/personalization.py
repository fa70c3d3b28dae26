"""What does personalization add? Fine-tuning by part, accuracy without the head, classes inside and outside."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from ..charts.lines import Line, lines
from ..figure import Section, figure, grid, missing, section, table
from ..markup import Html, tag
from ..scale import axis, whole_axis
from ..study import Method, Study
from ..wording import NONE

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
    found = study.having("finetuning")
    if not found:
        return [missing("Fine-tuning by part (head, body, full) was not measured.", COMMAND)]
    values = [
        mean for _, several in found for value in several for part in value["parts"].values() for mean in part["macro"]
    ]
    y = axis(study.metric.axis, values, study.metric.tick, study.metric.text, within=study.metric.bounds)
    return [tag("h3", "Fine-tuning by part"), grid(*(_curves(study, method, several, y) for method, several in found))]


def _curves(study: Study, method: Method, several: Sequence[Mapping[str, Any]], y: Any) -> Html:
    epochs = several[0]["epochs"]
    series, rows = [], []
    for number, part in enumerate(PARTS):
        known = [value["parts"][part] for value in several if part in value["parts"] and value["epochs"] == epochs]
        if not known:
            continue
        means = [fmean(each["macro"][place] for each in known) for place in range(len(epochs))]
        stds = [fmean(each["std"][place] for each in known) for place in range(len(epochs))]
        series.append(Line(part, list(zip(epochs, means, strict=True)), number))
        rows += [
            [part, str(epoch), study.metric.spread(mean, std)]
            for epoch, mean, std in zip(epochs, means, stds, strict=True)
        ]
    chart = lines(
        f"{method.name}: test {study.metric.name} over epochs of fine-tuning, by part",
        whole_axis("epoch", 0, epochs[-1]),
        y,
        series,
    )
    note = f"Mean over {len(several[0]['clients'])} clients" + (
        f" and {len(several)} seeds." if len(several) > 1 else "."
    )
    return figure(method.name, chart, ["part", "epoch", f"{study.metric.name} ± over clients"], rows, note)
