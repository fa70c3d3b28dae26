"""How alike are clients' networks? By layer, by pair of clients, and as a map of representations."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from ...formatting import listed
from ..charts.frame import shortened
from ..charts.grid import Cell, grid as cells
from ..charts.lines import Line, lines
from ..charts.scatter import Point, cloud
from ..figure import Section, figure, grid, missing, paragraph, section
from ..markup import Html, tag
from ..sampling import evenly, told
from ..scale import Axis, axis
from ..study import Method, Study

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
    kinds = (("cosine", "Cosine of parameters"), ("cka", "Alignment (CKA) of outputs"))
    layers = [each for kind in kinds for each in _layers(found, *kind)]
    content = [grid(*layers, *(_matrix(*each) for each in different[:MOST_METHODS]))]
    if same:
        content.append(paragraph(f"{listed(same)}: all clients hold the same network.", class_="quiet"))
    return content


def _least(found: Mapping[str, Any]) -> float:
    return min(float(value) for row in found["matrix"] for value in row)


def _layers(found: Sequence[tuple[Method, list[Mapping[str, Any]]]], key: str, title: str) -> list[Html]:
    names = list(dict.fromkeys(str(layer) for _, values in found for value in values for layer in value["layers"]))
    known = [(method, means) for method, values in found if (means := _means(names, values, key))]
    if not known:
        return []

    def named(place: float) -> str:
        return shortened(names[min(round(place), len(names) - 1)], 110)

    x = Axis("layer", 0, max(len(names) - 1, 1), tuple(map(float, evenly(range(len(names)), 4))), named, named)
    y = axis("similarity", [0, 1, *(mean for _, means in known for _, mean, _ in means)])
    series = [Line(method.name, [(place, mean) for place, mean, _ in means], method.number) for method, means in known]
    rows = [
        [method.name, names[place], f"{mean:.3f}", f"{std:.3f}"]
        for method, means in known
        for place, mean, std in means
    ]
    titles = ["method", "layer", "mean over pairs", "spread over pairs"]
    chart = lines(f"{title} between clients, by layer", x, y, series)
    return [figure(title, chart, titles, rows, "Mean over pairs of clients; 1: all clients alike.")]


def _means(names: Sequence[str], values: Sequence[Mapping[str, Any]], key: str) -> list[tuple[int, float, float]]:
    """Places of layers with the mean and the spread over pairs, of all runs; layers that were not measured left out."""
    found = []
    for place, layer in enumerate(names):
        pairs = [
            pair
            for value in values
            for name, *pair in zip(value["layers"], value[key], value[f"{key}_std"], strict=True)
            # Where outputs do not vary there is no alignment.
            if name == layer and pair[0] is not None and math.isfinite(pair[0])
        ]
        if pairs:
            found.append((place, fmean(mean for mean, _ in pairs), fmean(std for _, std in pairs)))
    return found


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
