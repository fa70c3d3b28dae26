"""How alike are clients' networks? By layer, by pair of clients, and as a map of representations."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from ..charts.grid import Cell, grid as cells
from ..charts.lines import Line, lines
from ..charts.scatter import Point, cloud
from ..figure import Section, figure, grid, missing, paragraph, section
from ..markup import Html, tag
from ..sampling import evenly, told
from ..scale import Axis, axis
from ..study import Method, Study
from ..wording import listed

TITLE = "Layers and representations"
COMMAND = "partita evaluate RUN"
MOST_METHODS = 4
MOST_POINTS = 400
MOST_CLIENTS = 30
ALL_BUT_ONE = 1 - 1e-6
"""A cosine above this is one but for rounding."""


def similarity(study: Study) -> Section:
    found, maps = study.having("similarity"), study.having("embedding")
    content = _similarities(found) if found else [missing("How alike clients' layers are was not measured.", COMMAND)]
    if maps:
        content += [tag("h3", "A map of representations (t-SNE)"), grid(*(_map(*each) for each in maps[:MOST_METHODS]))]
        words = "Nearness means likeness; directions, distances between groups and their sizes mean nothing."
        content.append(paragraph(words, class_="quiet"))
    else:
        content.append(missing("There is no map of representations (t-SNE).", COMMAND))
    if max(len(found), len(maps)) > MOST_METHODS:
        words = f"Pairs of clients and maps are of the first {MOST_METHODS} methods, under the first seed."
        content.append(paragraph(words, class_="quiet"))
    return section("similarity", TITLE, *content)


def _similarities(found: Sequence[tuple[Method, list[Mapping[str, Any]]]]) -> list[Html]:
    same = [method.name for method, values in found if _least(values[0]) > ALL_BUT_ONE]
    different = [each for each in found if each[0].name not in same]
    layers = (
        _layers(found, *kind) for kind in (("cosine", "Cosine of parameters"), ("cka", "Alignment (CKA) of outputs"))
    )
    content = [grid(*layers, *(_matrix(*each) for each in different[:MOST_METHODS]))]
    if same:
        content.append(paragraph(f"{listed(same)}: all clients hold the same network.", class_="quiet"))
    return content


def _least(found: Mapping[str, Any]) -> float:
    return min(float(value) for row in found["matrix"] for value in row)


def _layers(found: Sequence[tuple[Method, list[Mapping[str, Any]]]], key: str, title: str) -> Html:
    names = list(dict.fromkeys(layer for _, values in found for value in values for layer in value["layers"]))
    series, rows = [], []
    for method, values in found:
        known = {
            layer: [
                (value[key][place], value[f"{key}_std"][place])
                for value in values
                if layer in value["layers"]
                # A layer whose outputs are not measured, or do not vary, has no alignment.
                for place in [value["layers"].index(layer)]
                if value[key][place] is not None and math.isfinite(value[key][place])
            ]
            for layer in names
        }
        points = [
            (number, fmean(mean for mean, _ in known[layer])) for number, layer in enumerate(names) if known[layer]
        ]
        if points:
            series.append(Line(method.name, points, method.number))
        rows += [
            [method.name, layer, f"{fmean(mean for mean, _ in each):.3f}", f"{fmean(std for _, std in each):.3f}"]
            for layer, each in known.items()
            if each
        ]

    def named(place: float) -> str:
        return names[min(round(place), len(names) - 1)]

    x = Axis("layer", 0, max(len(names) - 1, 1), tuple(map(float, evenly(range(len(names)), 4))), named, named)
    y = axis("similarity", [0, 1, *(mean for each in series for _, mean in each.points)])
    chart = lines(f"{title} between clients, by layer", x, y, series)
    return figure(
        title,
        chart,
        ["method", "layer", "mean over pairs", "spread over pairs"],
        rows,
        "Mean over pairs of clients; 1: all clients alike.",
    )


def _matrix(method: Method, values: Sequence[Mapping[str, Any]]) -> Html:
    found = values[0]
    places = evenly(range(len(found["clients"])), MOST_CLIENTS)
    names = [str(found["clients"][place]) for place in places]
    matrix = [[float(found["matrix"][row][column]) for column in places] for row in places]
    low = _least(found)
    span = 1 - low
    drawn = [
        [
            Cell(0.1 + 0.9 * (value - low) / span, f"clients {names[row]} and {names[column]}: {value:.3f}")
            for column, value in enumerate(line)
        ]
        for row, line in enumerate(matrix)
    ]
    rows = [[names[row], *(f"{value:.3f}" for value in line)] for row, line in enumerate(matrix)]
    note = f"Cosine of whole networks: light {low:.2f}, dark 1. {told(len(places), len(found['clients']), 'clients')}"
    chart = cells(f"{method.name}: similarity of every two clients", names, names, drawn, "client", "client")
    return figure(f"{method.name}: pairs of clients", chart, ["client", *names], rows, note.strip())


def _map(method: Method, values: Sequence[Mapping[str, Any]]) -> Html:
    found = values[0]
    places = evenly(range(len(found["x"])), MOST_POINTS)
    classes = sorted(set(found["label"]))
    points = [
        Point(
            found["x"][place],
            found["y"][place],
            classes.index(found["label"][place]),
            f"label {found['label'][place]}, client {found['client'][place]}",
        )
        for place in places
    ]
    rows = [
        [
            str(found["client"][place]),
            str(found["label"][place]),
            f"{found['x'][place]:.1f}",
            f"{found['y'][place]:.1f}",
        ]
        for place in places
    ]
    note = f"Colour and shape: the label. {told(len(places), len(found['x']), 'samples')}"
    return figure(
        method.name,
        cloud(f"{method.name}: map of representations, by label", points, [str(each) for each in classes]),
        ["client", "label", "x", "y"],
        rows,
        note.strip(),
    )
