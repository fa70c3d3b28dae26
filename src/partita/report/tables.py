"""How is a comparison or another table written down? For a terminal, as CSV, Markdown or LaTeX."""

import io
import re
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Literal, get_args

from ..errors import PartitaError, unknown
from ..evaluation.comparison import Comparison, Difference, MethodScores
from ..evaluation.figures import Table
from ..runs.export import write_csv

Form = Literal["terminal", "csv", "markdown", "latex"]


def comparison_text(comparison: Comparison, form: Form, *, percent: bool = False) -> str:
    """A comparison as a table; `percent` is for scores that are shares. CSV holds the plain numbers, without notes."""
    if form not in get_args(Form):
        raise PartitaError(unknown("form of a table", form, get_args(Form)))
    if form == "csv":
        return _csv(comparison)
    return _WRITE[form](_cells(comparison, percent=percent), _remarks(comparison, percent=percent))


def table_text(table: Table, form: Form) -> str:
    """A table whose cells are text already; its note is left out of CSV."""
    if form == "csv":
        written = io.StringIO()
        write_csv(written, table.columns, table.rows)
        return written.getvalue()
    return _WRITE[form]([list(table.columns), *map(list, table.rows)], [table.note] if table.note else [])


def _cells(comparison: Comparison, *, percent: bool = False) -> list[list[str]]:
    """The cells of the table by row; the first row has the titles."""
    found = {each.method: each for each in comparison.differences}
    unlike = any(each.marks for each in comparison.methods)
    titles = ["method", "mean ± over clients", "spread over seeds", "difference", "p", "p (Holm)", "win/tie/loss"]
    rows = [[*titles, *(["not on equal terms"] if unlike else [])]]
    for each in comparison.methods:
        mean, client_spread, seed_spread = (
            _number(value, percent) for value in (each.mean, each.client_spread, each.seed_spread)
        )
        row = [_one_line(each.method), f"{mean} ± {client_spread}", seed_spread]
        row += _against(found[each.method], percent) if each.method in found else ["-"] * 4
        rows.append([*row, *([", ".join(each.marks) or "-"] if unlike else [])])
    return rows


def _remarks(comparison: Comparison, *, percent: bool = False) -> list[str]:
    """Notes on what the numbers are and how to read them."""
    unit = " Scores in percent." if percent else ""
    better = "less" if comparison.lower_is_better else "more"
    return [
        f"Difference: the method less {comparison.baseline}, with a {100 * comparison.level:g} % interval; "
        f"{better} is better.{unit}",
        *map(_one_line, comparison.notes),
    ]


def _one_line(text: str) -> str:
    return " ".join(text.split())


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
    own = [field.name for field in fields(MethodScores)]
    names = ["difference", "low", "high", "wins", "ties", "losses", "p", "corrected", "pairs"]
    rows = []
    for each in comparison.methods:
        row = asdict(each)
        if other := found.get(each.method):
            low, high = other.interval or (None, None)
            # The method's own numbers of seeds and clients stand before those that it shares with the baseline.
            row = asdict(other) | row | {"difference": other.mean, "low": low, "high": high}
        row["marks"] = "; ".join(each.marks)
        rows.append([row.get(name) for name in (*own, *names)])
    written = io.StringIO()
    write_csv(written, [*own, *names], rows)
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
    titles, *others = ([_marked(cell) for cell in row] for row in rows)
    lines = [f"| {' | '.join(row)} |" for row in (titles, ["---", *["---:"] * (len(titles) - 1)], *others)]
    return "\n".join([*lines, "", *(f"- {_marked(remark)}" for remark in remarks)]) + "\n"


def _marked(text: str) -> str:
    """Text that Markdown shows as it is: without emphasis, links (addresses included), HTML or further columns."""
    marked = re.sub(r"([\\`*_|<>\[\]~@])", r"\\\1", text)
    return re.sub(r"(?i)(https?|ftp)://|www\.", lambda found: found[0].replace(":", "\\:").replace(".", "\\."), marked)


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


_WRITE: dict[str, Callable[[list[list[str]], list[str]], str]] = {
    "terminal": _plain,
    "markdown": _markdown,
    "latex": _latex,
}
