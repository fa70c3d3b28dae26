"""How does a chart stand on the page? With a title, a caption, and its numbers in a table that can be opened."""

from collections.abc import Sequence
from dataclasses import dataclass

from .markup import Html, tag

Rows = Sequence[Sequence[str]]


def figure(
    title: str,
    chart: Html,
    titles: Sequence[str],
    rows: Rows,
    note: str = "",
    *,
    legend: Html | None = None,
    beside: bool = False,
) -> Html:
    """A chart and the table of what it shows; `beside` puts the two side by side where there is room."""
    caption = [tag("strong", title), *([tag("span", note)] if note else []), *([legend] if legend else [])]
    numbers = html_table(titles, rows, label=title) if beside else details("Numbers", titles, rows)
    return tag("figure", tag("figcaption", *caption), chart, numbers, class_="beside" if beside else None)


def key(entries: Sequence[tuple[str, str]]) -> Html:
    """A legend: pairs of a class of the style sheet and a name."""
    items = (tag("li", tag("span", class_=f"swatch {class_}"), name) for class_, name in entries)
    return tag("ul", *items, class_="key")


def details(summary: str, titles: Sequence[str], rows: Rows) -> Html:
    return tag("details", tag("summary", summary), html_table(titles, rows, label=summary))


def html_table(titles: Sequence[str], rows: Rows, *, label: str, class_: str | None = None) -> Html:
    """The first column names the row, the others are its values. It scrolls by itself where it is too wide."""
    head = tag("thead", tag("tr", *(tag("th", title, scope="col") for title in titles)))
    lines = (tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows)
    made = tag("table", head, tag("tbody", *lines), class_=class_)
    # What scrolls must be reachable with the keyboard.
    return tag("div", made, class_="scroll", tabindex="0", role="region", aria_label=label)


def multiples(
    title: str,
    charts: Sequence[tuple[str, str, Html]],
    titles: Sequence[str],
    rows: Rows,
    note: str = "",
    *,
    legend: Html | None = None,
) -> Html:
    """Small charts of one kind with the same axes, each with a name and a remark, and one table of all."""
    caption = [tag("strong", title), *([tag("span", note)] if note else []), *([legend] if legend else [])]
    small = (
        tag("div", tag("b", name), *([tag("span", said)] if said else []), chart, class_="small")
        for name, said, chart in charts
    )
    return tag(
        "figure",
        tag("figcaption", *caption),
        tag("div", *small, class_="multiples"),
        details("Numbers", titles, rows),
        class_="wide",
    )


def grid(*figures: Html) -> Html:
    """Figures side by side where there is room."""
    return tag("div", *figures, class_="figures")


@dataclass(frozen=True)
class Section:
    """A part of the report with a place of its own in the contents."""

    identity: str
    title: str
    content: tuple[str, ...]

    @property
    def html(self) -> Html:
        name = f"{self.identity}-title"
        return tag("section", tag("h2", self.title, id=name), *self.content, id=self.identity, aria_labelledby=name)


def section(identity: str, title: str, *content: str) -> Section:
    return Section(identity, title, content)


def missing(what: str, command: str, how: str = "Add it with") -> Html:
    """One line in place of an empty chart, with the command that adds it."""
    return tag("p", f"{what} {how} ", tag("code", command), ".", class_="missing")


def missing_baselines(what: str) -> Html:
    return missing(what, "partita run", "A run makes its baselines unless you turn them off:")


def not_noted(what: str) -> Html:
    return missing(what, "partita run", "It is recorded when a run starts:")


def paragraph(*content: str, class_: str | None = None) -> Html:
    return tag("p", *content, class_=class_)
