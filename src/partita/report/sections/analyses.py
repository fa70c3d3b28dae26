"""What did analyses find? The figures of each, or the command that makes it."""

from collections.abc import Sequence

from ...evaluation.analysis import Analysis, Findings, declared
from ...evaluation.figures import Cells, Cloud, Figure, Lines, Table
from ..charts.frame import shortened
from ..charts.grid import Cell, grid as cells
from ..charts.lines import legend, lines
from ..charts.scatter import Mark, cloud
from ..figure import Section, figure, grid, html_table, missing, multiples, paragraph, section
from ..markup import Html, tag
from ..sampling import evenly, part_shown
from ..scale import Axis, axis, score_axis, whole_axis
from ..study import Study

PLACE = 100
TITLE = "Analyses"
MOST_LARGE = 4
"""The largest number of figures with many marks, such as one for every pair of clients, in an analysis."""
MOST_NAMES = 30
MOST_POINTS = 400


def analyses(study: Study) -> Section:
    shown = [analysis for analysis in declared().values() if analysis.section == "analyses"]
    return section("analyses", TITLE, *(part for analysis in shown for part in _analysis(study, analysis)))


def _analysis(study: Study, analysis: Analysis) -> list[Html]:
    findings = [
        Findings(method.name, method.number, found, method.run.record.name_of, method.run.label_of)
        for method, found in study.having(analysis.name)
    ]
    figures = _figures(study, analysis, findings) if findings else []
    if not figures:
        if failed := study.having(f"{analysis.name}_failed"):
            return [paragraph(f"{analysis.title}: {reasons[0]}", class_="missing") for _, reasons in failed[:1]]
        if analysis.of_newcomers and not any(run.record.newcomers for run in study.runs):
            return []
        return [missing(f"{analysis.title}: not measured.", f"partita evaluate RUN --what {analysis.name}")]
    large = [each for each in figures if isinstance(each, Cells | Cloud)]
    curves = [each for each in figures if isinstance(each, Lines)]
    small = len(curves) > MOST_LARGE and len({tuple(each.table.columns) for each in curves}) == 1
    drawn = [*([] if small else curves), *large[:MOST_LARGE]]
    rest = [_text(each) for each in figures if isinstance(each, Table | str)]
    content = [
        tag("h3", analysis.title),
        *([_multiples(study, curves)] if small else []),
        *([grid(*(_drawn(study, each) for each in drawn))] if drawn else []),
        *rest,
    ]
    if len(large) > MOST_LARGE:
        content.append(paragraph(f"The first {MOST_LARGE} of {len(large):,} such figures are shown.", class_="quiet"))
    return content


def _figures(study: Study, analysis: Analysis, findings: Sequence[Findings]) -> list[Figure]:
    if analysis.figures:
        return list(analysis.figures(findings, study.metric))
    return [
        figure
        for each in findings
        for table in analysis.tables(each.results[0], study.metric)
        for figure in (f"{each.method}{_first_of(len(each.results))}:", table)
    ]


def _first_of(seeds: int) -> str:
    return f", the first of {seeds} seeds" if seeds > 1 else ""


def _text(each: Table | str) -> Html:
    if isinstance(each, str):
        return paragraph(each, class_="quiet")
    note = [paragraph(each.note, class_="quiet")] if each.note else []
    return tag("div", html_table(each.columns, each.rows, label=each.title or each.columns[0]), *note)


def _drawn(study: Study, each: Lines | Cells | Cloud) -> Html:
    if isinstance(each, Lines):
        return _lines(study, each)
    return _cells(each) if isinstance(each, Cells) else _cloud(each)


def _lines(study: Study, each: Lines) -> Html:
    return figure(
        each.title, _chart(study, each), each.table.columns, each.table.rows, each.note, legend=legend(each.lines)
    )


def _multiples(study: Study, several: Sequence[Lines]) -> Html:
    """Many charts of one kind, for instance one for each method: small ones, which say once what they share."""
    first, notes = several[0], {each.note for each in several}
    charts = [(each.title, each.note if len(notes) > 1 else "", _chart(study, each, small=True)) for each in several]
    rows = [[each.title, *row] for each in several for row in each.table.rows]
    named = {line.name: line for each in several for line in each.lines}
    title = f"{first.y or f'test {study.metric.name}'} by {first.x}"
    return multiples(
        title[0].upper() + title[1:],
        charts,
        ["", *first.table.columns],
        rows,
        "" if len(notes) > 1 else first.note,
        legend=legend([*named.values()], small=True),
    )


def _chart(study: Study, each: Lines, *, small: bool = False) -> Html:
    metric, names = study.metric, each.categories

    def named(place: float) -> str:
        return shortened(names[min(round(place), len(names) - 1)], 110)

    last = int(max(at for line in each.lines for at, _ in line.points))
    ticks = tuple(map(float, evenly(range(len(names)), 4)))
    x = Axis(each.x, 0, max(len(names) - 1, 1), ticks, named, named) if names else whole_axis(each.x, 0, last)
    values = [value for line in each.lines for _, value in line.points]
    y = axis(each.y, [0, 1, *values, *each.covered]) if each.y else score_axis(metric, [*values, *each.covered])
    label = f"{each.title}: {each.y or f'test {metric.name}'} by {each.x}"
    return lines(label, x, y, each.lines, small=small)


def _cells(each: Cells) -> Html:
    places = evenly(range(len(each.names)), MOST_NAMES)
    names = [each.names[place] for place in places]
    values = [[float(each.values[row][column]) for column in places] for row in places]
    # The shade is that of the whole, of which a part may be shown.
    known = [float(value) for row in each.values for value in row]
    low, high = min(known), max(known)
    drawn = [
        [
            Cell(
                0.1 + 0.9 * (value - low) / (high - low or 1.0), f"{each.of}s {names[row]} and {names[at]}: {value:.3f}"
            )
            for at, value in enumerate(line)
        ]
        for row, line in enumerate(values)
    ]
    rows = [[name, *(f"{value:.3f}" for value in line)] for name, line in zip(names, values, strict=True)]
    digits = next((each for each in (2, 3, 4) if f"{low:.{each}f}" != f"{high:.{each}f}"), 4)
    shades = f"Light {low:.{digits}f}, dark {high:.{digits}f}."
    note = " ".join(filter(None, (each.note, shades, part_shown(len(places), len(each.names), f"{each.of}s"))))
    chart = cells(f"{each.title}: every two {each.of}s", names, names, drawn, each.of, each.of)
    return figure(each.title, chart, [each.of, *names], rows, note)


def _cloud(each: Cloud) -> Html:
    points = evenly(each.points, MOST_POINTS)
    marks = [
        Mark(
            point.x,
            point.y,
            point.group,
            ", ".join(f"{column} {value}" for column, value in zip(each.columns, point.values, strict=True)),
        )
        for point in points
    ]
    rows = [[*point.values, f"{point.x:.1f}", f"{point.y:.1f}"] for point in points]
    note = " ".join(filter(None, (each.note, part_shown(len(points), len(each.points), "points"))))
    return figure(each.title, cloud(f"{each.title}: map", marks, each.groups), [*each.columns, "x", "y"], rows, note)
