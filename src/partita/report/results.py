"""What did each method reach? The table that the report, the terminal and machines are given, made in one place."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, pstdev
from typing import Any

from ..evaluation.figures import Table
from ..evaluation.intervals import half_width
from ..formatting import NONE, byte_text
from .method import Method
from .study import Study


@dataclass(frozen=True)
class Row:
    """One line of the table, as text; `best` are the places of its cells that are the best of their column."""

    cells: tuple[str, ...]
    kind: str
    """`floor`, `baseline`, `method` or `new` clients."""
    best: frozenset[int] = frozenset()


def titles(study: Study) -> list[str]:
    many = [f"{TITLE_SEEDS}"] if len(study.seeds) > 1 else []
    found = ["method", "mean ± over clients", *many, "all samples", "worst decile"]
    found += [f"gain over {name}" for name in study.references]
    return found + [f"hurt, against {name}" for name in study.references] + ["per round"]


SERVES = "{}, which is one of the methods: it has the settings and scores of this baseline"
TITLE_SEEDS = "± over seeds (95 %)"


def result_rows(study: Study) -> list[Row]:
    """The floor, the baselines and the methods of one set of clients."""
    rows = [_floor(study)] if study.floors else []
    rows += [Row(_cells(study, each, "baseline"), "baseline") for each in study.baselines if each.summaries]
    tested = [method for method in study.methods if method.summaries]
    for method, best in zip(tested, _best(study, tested), strict=True):
        rows.append(Row(_cells(study, method), "method", best))
        rows += _newcomers(study, method)
    return rows


def results(study: Study) -> list[Table]:
    """One table for each set of clients, for the terminal; the best of a column has a star."""
    found = []
    for part in study.by_clients:
        made = result_rows(part)
        rows = [[f"{cell} *" if place in row.best else cell for place, cell in enumerate(row.cells)] for row in made]
        note = "* best of its column among the methods. " if any(row.best for row in made) else ""
        title = part.data if len(study.by_clients) > 1 else ""
        settings = [f"{each.name}: {settings_of(each)}" for each in (*part.baselines, *part.methods)]
        settings += [f"{reference}: {SERVES.format(name)}" for reference, name in part.served.items()]
        found.append(Table([*titles(part)], rows, title, "\n".join([note, *settings]).strip()))
    return found


def settings_of(method: Method) -> str:
    """What was chosen: for a baseline under each seed, where its rates differ."""
    said = dict.fromkeys(each.run.record.settings_text for each in method.replicas)
    text = " / ".join(said)
    return f"{text}; {method.choice}" if method.choice else text


def method_as_dict(study: Study, method: Method) -> dict[str, Any]:
    """The numbers of a row, for machines."""
    macros = [each.macro for each in method.summaries]
    return {
        "name": method.name,
        "runs": [str(each.run.folder) for each in method.replicas],
        "seeds": [each.run.seed for each in method.replicas],
        "mean": fmean(macros) if macros else None,
        "half_width": half_width(macros),
        "worst_decile": fmean(each.worst_decile for each in method.summaries) if macros else None,
        "gains": {name: method.mean_gain(name) for name in study.references if method.over(name)},
        "hurt": {
            name: {
                "count": method.hurt_count(name)[0],
                "surely": method.surely_count(name),
                "of": method.hurt_count(name)[1],
            }
            for name in study.references
            if method.over(name)
        },
        "clients": {name: _clients(method, name) for name in study.references if method.over(name)},
        "against": dict(method.against),
        "marks": list(method.marks),
        "settings": settings_of(method),
    }


def _clients(method: Method, reference: str) -> list[dict[str, Any]]:
    """Each client over all seeds."""
    return [
        {"client": client, "name": method.run.record.name_of(client), **asdict(each)}
        for client, each in sorted(method.by_client(reference).items())
    ]


def _cells(study: Study, method: Method, *more: str) -> tuple[str, ...]:
    metric, summaries = study.metric, method.summaries
    macros = [each.macro for each in summaries]
    row = [named(method, *more), metric.spread(fmean(macros), fmean(each.std for each in summaries))]
    if len(study.seeds) > 1:
        half = half_width(macros)
        row.append(NONE if half is None else metric.change(half).lstrip("+"))
    row += [metric.text(fmean(each.micro for each in summaries)), metric.text(_worst(method))]
    gains = [method.mean_gain(name) for name in study.references]
    row += [NONE if gain is None else metric.change(gain) for gain in gains]
    row += [method.hurt_text(name) if method.over(name) else NONE for name in study.references]
    return (*row, byte_text(fmean(each.run.bytes_per_round for each in method.replicas)))


def named(method: Method, *more: str) -> str:
    """The name of a method in a table, with the remarks that a reader must know."""
    marks = list(more)
    if not method.finished:
        marks.append("not finished")
    if any(each.run.record.oracle_validation for each in method.replicas):
        marks.append("oracle")
    marks += [each for each in method.marks if each not in ("oracle", "no oracle")]
    return f"{method.name} ({', '.join(marks)})" if marks else method.name


def _worst(method: Method) -> float:
    return fmean(each.worst_decile for each in method.summaries)


def _best(study: Study, methods: Sequence[Method]) -> list[frozenset[int]]:
    """The columns in which each method is the best; oracles and unequal terms do not count.

    Gains over different baselines are not comparable, and have no best.
    """
    fair = [method for method in methods if method.finished and not method.marks]
    if len(fair) < 2:
        return [frozenset() for _ in methods]
    many = len(study.seeds) > 1
    better = study.metric.gain
    columns: dict[int, dict[str, float]] = {1: {m.name: better(m.mean, 0.0) for m in fair}}
    micro = {m.name: better(fmean(each.micro for each in m.summaries), 0.0) for m in fair}
    columns |= {2 + many: micro, 3 + many: {m.name: better(_worst(m), 0.0) for m in fair}}
    for place, name in enumerate(study.references):
        if len({method.against.get(name) for method in fair if method.over(name)}) > 1:
            continue
        gains = {m.name: gain for m in fair if (gain := m.mean_gain(name)) is not None}
        hurt = {m.name: -m.hurt_count(name)[0] / m.hurt_count(name)[1] for m in fair if m.over(name)}
        columns |= {4 + many + place: gains, 4 + many + len(study.references) + place: hurt}
    return [
        frozenset(
            place
            for place, known in columns.items()
            if len(known) > 1
            and method.name in known
            and known[method.name] == max(known.values()) > min(known.values())
        )
        for method in methods
    ]


def _floor(study: Study) -> Row:
    """The floor of the clients that were tested; the score of all samples only if these are all clients."""
    metric, floors = study.metric, [each for _, each in study.floors]
    row = ["floor", metric.spread(fmean(each.macro for each in floors), fmean(pstdev(each.others) for each in floors))]
    known = [run.analyses["floor"] for run, _ in study.floors]
    whole = [len(each.clients) for each in floors] == [len(value["clients"]) for value in known]
    row += [NONE] if len(study.seeds) > 1 else []
    row.append(metric.text(fmean(value["micro"] for value in known)) if whole else NONE)
    return Row((*row, *[NONE] * (len(titles(study)) - len(row))), "floor")


def _newcomers(study: Study, method: Method) -> list[Row]:
    found = [summary for each in method.tested if (summary := each.run.summaries(newcomers=True).get(each.variant))]
    if not found:
        return []
    metric = study.metric
    row = [
        f"{method.name}, new clients",
        metric.spread(fmean(each.macro for each in found), fmean(each.std for each in found)),
        *([NONE] if len(study.seeds) > 1 else []),
        metric.text(fmean(each.micro for each in found)),
        metric.text(fmean(each.worst_decile for each in found)),
    ]
    return [Row((*row, *[NONE] * (len(titles(study)) - len(row))), "new")]
