"""How is a comparison written down? For a terminal, as CSV, Markdown or LaTeX."""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Literal, get_args

from ..errors import PartitaError, unknown
from ..evaluation.comparison import Comparison, Difference, Standing

Form = Literal["terminal", "csv", "markdown", "latex"]


def table(comparison: Comparison, form: Form, *, percent: bool = False) -> str:
    """The comparison as text; `percent` is for scores that are shares. CSV holds the plain numbers, without notes."""
    if form not in get_args(Form):
        raise PartitaError(unknown("form of a table", form, get_args(Form)))
    if form == "csv":
        return _csv(comparison)
    rows = cells(comparison, percent=percent)
    write: dict[str, Callable[[list[list[str]], list[str]], str]] = {
        "terminal": _plain,
        "markdown": _markdown,
        "latex": _latex,
    }
    return write[form](rows, remarks(comparison, percent=percent))


def cells(comparison: Comparison, *, percent: bool = False) -> list[list[str]]:
    """Rows of a table for people, the first of them the titles."""
    found = {each.method: each for each in comparison.differences}
    titles = ["method", "mean ± over clients", "over seeds", "difference", "p", "p (Holm)", "win/tie/loss"]
    rows = [titles]
    for standing in comparison.standings:
        mean, client_spread, seed_spread = (
            _number(value, percent) for value in (standing.mean, standing.client_spread, standing.seed_spread)
        )
        row = [" ".join(standing.method.split()), f"{mean} ± {client_spread}", seed_spread]
        rows.append(row + (_against(found[standing.method], percent) if standing.method in found else ["-"] * 4))
    return rows


def remarks(comparison: Comparison, *, percent: bool = False) -> list[str]:
    """What the numbers of a table are, and what to keep in mind."""
    unit = " Scores in percent." if percent else ""
    better = "less" if comparison.lower_is_better else "more"
    return [
        f"Difference: the method less {comparison.baseline}, with a {100 * comparison.level:g} % interval; "
        f"{better} is better.{unit}",
        *comparison.notes,
    ]


def _number(value: float | None, percent: bool, sign: str = "") -> str:
    if value is None:
        return "-"
    digits = 2 if percent else 4
    # Zero is added, so that what is rounded to nothing has no minus.
    return format(round(100 * value if percent else value, digits) + 0.0, f"{sign}.{digits}f")


def _against(difference: Difference, percent: bool) -> list[str]:
    mean = _number(difference.mean, percent, "+")
    within = ""
    if difference.interval:
        low, high = (_number(end, percent, "+") for end in difference.interval)
        within = f" [{low}, {high}]"
    ratio = f"{difference.wins}/{difference.ties}/{difference.losses}"
    return [mean + within, _chance(difference.p), _chance(difference.corrected), ratio]


def _chance(p: float) -> str:
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def _csv(comparison: Comparison) -> str:
    found = {each.method: each for each in comparison.differences}
    own = [field.name for field in fields(Standing)]
    names = ["difference", "low", "high", "wins", "ties", "losses", "p", "corrected", "pairs"]
    written = io.StringIO()
    writer = csv.DictWriter(written, [*own, *names], restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    for standing in comparison.standings:
        row = asdict(standing)
        if standing.method in found:
            other = found[standing.method]
            low, high = other.interval or (None, None)
            # The method's own numbers of seeds and clients stand before those that it shares with the baseline.
            row = asdict(other) | row | {"difference": other.mean, "low": low, "high": high}
        writer.writerow(row)
    return written.getvalue()


def _plain(rows: list[list[str]], remarks: list[str]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]
    return "\n".join([*lines, "", *remarks]) + "\n"


def _markdown(rows: list[list[str]], remarks: list[str]) -> str:
    named = [[_marked(row[0]), *row[1:]] for row in rows]
    titles, *others = named
    lines = [f"| {' | '.join(row)} |" for row in (titles, ["---", *["---:"] * (len(titles) - 1)], *others)]
    return "\n".join([*lines, "", *(f"- {_marked(remark)}" for remark in remarks)]) + "\n"


def _marked(text: str) -> str:
    return re.sub(r"([\\`*_|<>])", r"\\\1", text)


LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "±": r"$\pm$",
    **{sign: "\\" + sign for sign in "&%$#_{}"},
}


def _latex(rows: list[list[str]], remarks: list[str]) -> str:
    """For the package booktabs; remarks are comments."""
    titles, *others = (" & ".join(map(_escaped, row)) + r" \\" for row in rows)
    lines = [
        *(f"% {line}" for remark in remarks for line in remark.splitlines()),
        rf"\begin{{tabular}}{{l{'r' * (len(rows[0]) - 1)}}}",
        r"\toprule",
        titles,
        r"\midrule",
        *others,
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _escaped(cell: str) -> str:
    written = "".join(LATEX.get(sign, sign) for sign in cell)
    # A bracket or a star after the end of a row would be read as its argument, and a minus as a hyphen.
    guarded = "{}" + written if written.startswith(("[", "*")) else written
    return re.sub(r"(?<![\w}])([+-])(?=\d)", r"$\1$", guarded)
