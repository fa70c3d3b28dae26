"""What does an analysis show? Tables and charts as plain values, which the terminal and the report draw."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """Text in rows and columns. The first column names the row."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class Line:
    """Points from left to right; a spread, where there is one, is drawn as a band to both sides."""

    name: str
    points: Sequence[tuple[float, float]]
    number: int
    """Decides the colour, and beyond the last colour the dashes."""
    spread: Sequence[float] = ()


@dataclass(frozen=True)
class Lines:
    """Lines over whole numbers, or over categories, which stand at 0, 1, 2 and so on."""

    title: str
    lines: Sequence[Line]
    x: str
    """What the horizontal axis is: for instance `epoch`."""
    table: Table
    """The numbers of the chart."""
    y: str | None = None
    """What the vertical axis is, from 0 to 1; None for scores of the run's metric."""
    categories: Sequence[str] = ()
    covered: Sequence[float] = ()
    """Values that the vertical axis covers beside those of the lines, so that several charts have the same one."""
    note: str = ""


@dataclass(frozen=True)
class Cells:
    """A value for every two of some things, as cells: the darker, the larger."""

    title: str
    names: Sequence[str]
    values: Sequence[Sequence[float]]
    of: str
    """What the things are: for instance `client`."""
    note: str = ""


@dataclass(frozen=True)
class Point:
    x: float
    y: float
    group: int
    """Decides colour and shape."""
    values: Sequence[str]
    """What is said of the point, one for each column of its figure."""


@dataclass(frozen=True)
class Cloud:
    """Points of which only the distances to near ones mean something."""

    title: str
    columns: Sequence[str]
    points: Sequence[Point]
    groups: Sequence[str]
    """The names of the groups."""
    note: str = ""


Figure = Table | Lines | Cells | Cloud | str
"""A text is a paragraph."""
