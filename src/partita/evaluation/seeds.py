"""What is found under several seeds? The mean over them, with a 95 % interval."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from ..formatting import NONE, amount
from .figures import Table
from .intervals import half_width
from .metric import Metric

Cells = Mapping[str, Mapping[str, float | None]]
"""The numbers of a table, by row and column; None where nothing was measured."""


@dataclass(frozen=True)
class Numbers:
    """What an analysis found under one seed and has a mean over several."""

    cells: Cells
    of: str | None = None
    """What the numbers are; None for scores of the run's metric."""
    on: str = "test"
    """The samples that scores are on."""


@dataclass(frozen=True)
class Mean:
    """A mean over the seeds that have a value."""

    mean: float
    half_width: float | None
    """Half the width of its 95 % interval; None for one seed."""
    seeds: int


def over_seeds(several: Sequence[Numbers]) -> dict[str, dict[str, Mean]]:
    """The means of all cells, by row and column, over the seeds that have them."""
    found: dict[str, dict[str, list[float]]] = {}
    for each in several:
        for row, cells in each.cells.items():
            for column, value in cells.items():
                if value is not None:
                    found.setdefault(row, {}).setdefault(column, []).append(value)
    return {
        row: {column: Mean(fmean(values), half_width(values), len(values)) for column, values in cells.items()}
        for row, cells in found.items()
    }


def seeds_table(title: str, several: Sequence[Numbers], metric: Metric) -> Table:
    """A table for the terminal: each cell is a mean over seeds with the half width of its 95 % interval."""
    means, of = over_seeds(several), several[0].of
    columns = list(dict.fromkeys(column for cells in means.values() for column in cells))
    rows = [[row, *(_text(cells.get(column), of, metric) for column in columns)] for row, cells in means.items()]
    note = f"Mean over {amount(len(several), 'seed')}" + (" ± half of its 95 % interval." if len(several) > 1 else ".")
    counts = {each.seeds for cells in means.values() for each in cells.values()}
    if counts - {len(several)}:
        note += f" Some cells are of fewer seeds, at least {min(counts)}."
    return Table([of or f"{several[0].on} {metric.name}", *columns], rows, title, note)


def _text(mean: Mean | None, of: str | None, metric: Metric) -> str:
    if mean is None:
        return NONE
    if of is not None:
        return f"{mean.mean:.3f}" + ("" if mean.half_width is None else f" ± {mean.half_width:.3f}")
    return metric.text(mean.mean) if mean.half_width is None else metric.spread(mean.mean, mean.half_width)
