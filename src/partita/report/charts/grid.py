"""How large is the value of each pair? Cells, the darker the larger."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..markup import Html, tag
from .frame import CHARACTER, RIGHT, TOP, WIDTH, shortened, svg, text

MOST_HEIGHT = 400
SHADES = 9
NAME = 130
"""The width of a name at the edge, at most."""


@dataclass(frozen=True)
class Cell:
    share: float
    """The share of the darkest shade, from 0 (not drawn) to 1."""
    tip: str


def grid(
    label: str, across: Sequence[str], down: Sequence[str], cells: Sequence[Sequence[Cell]], x: str, y: str
) -> Html:
    """A chart of cells, given by row; x and y name the axes."""
    across, down = [shortened(name, NAME) for name in across], [shortened(name, NAME) for name in down]
    left = max(map(len, down)) * CHARACTER + 10
    width = (WIDTH - RIGHT - left) / len(across)
    height = min(max(width, 14), 22, (MOST_HEIGHT - TOP) / len(down))
    bottom = TOP + height * len(down)
    gap = 1.0 if min(width, height) > 5 else 0.3
    marks = [
        tag(
            "rect",
            x=left + column * width + gap / 2,
            y=TOP + row * height + gap / 2,
            width=width - gap,
            height=height - gap,
            class_=f"cell s{max(round(SHADES * cell.share), 1)}",
            data_tip=cell.tip,
        )
        for row, line in enumerate(cells)
        for column, cell in enumerate(line)
        if cell.share > 0
    ]
    room = max(int((WIDTH - left) / (max(map(len, across)) * CHARACTER + 8)), 2)
    names = [
        _below(left + (place + 0.5) * width, bottom + 16, across[place])
        for place in range(0, len(across), -(-len(across) // room))
    ]
    names += [
        text(left - 6, TOP + (place + 0.5) * height + 4, down[place], anchor="end")
        for place in range(0, len(down), -(-len(down) // max(int((bottom - TOP) / 18), 2)))
    ]
    back = tag("rect", x=left, y=TOP, width=WIDTH - RIGHT - left, height=bottom - TOP, class_="empty")
    titles = [
        text(2, 14, y, class_="title"),
        text((left + WIDTH - RIGHT) / 2, bottom + 35, x, anchor="middle", class_="title"),
    ]
    return svg(label, bottom + 42, back, *marks, *names, *titles)


def _below(x: float, y: float, name: str) -> Html:
    """A name in the middle below its column, or beside that as far as the edges of the chart demand."""
    half = len(name) * CHARACTER / 2
    return text(min(max(x, half), WIDTH - half), y, name, anchor="middle")
