"""Which settings are best on validation data? Every point of a grid is run under every seed, and kept."""

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from ..errors import DivergedError, PartitaError
from ..evaluation.figures import Table
from ..evaluation.intervals import half_width
from ..evaluation.metric import Metric
from ..experiment.events import OnEvent, ignore
from ..experiment.executor import Executor
from ..experiment.experiment import Experiment
from ..experiment.settings.files import data_of, make, read, values_of
from ..formatting import NONE, amount
from ..runs.reuse import folder_for
from .run import keep_seeds
from .seeds import Runs

MOST_POINTS = 1000
Grid = Mapping[str, Sequence[str]]
"""The values that are tried, as text, by dotted key."""


@dataclass(frozen=True)
class Point:
    """One combination of settings in a grid, with the experiment that they make."""

    settings: Mapping[str, str]
    experiment: Experiment
    folder: Path

    @property
    def overrides(self) -> list[str]:
        return [f"{key}={value}" for key, value in self.settings.items()]


@dataclass(frozen=True)
class Tried:
    """A point and its runs, one for each seed; None if one of them diverged."""

    point: Point
    runs: Runs | None

    @property
    def validation(self) -> list[float]:
        """The mean score over clients on validation data, for each seed."""
        found = [run.stored.summaries(role="validation")[run.stored.record.variant] for run in self.runs or ()]
        return [each.macro for each in found]

    @property
    def test(self) -> list[float]:
        return [each.macro for each in self.runs.score()] if self.runs else []


@dataclass(frozen=True)
class Sweep:
    """All points that were tried, in the order of the grid."""

    tried: Sequence[Tried]
    metric: Metric

    @property
    def chosen(self) -> Tried:
        """The point with the best mean on validation data; among equal points the first."""
        known = [each for each in self.tried if each.runs]
        if not known:
            raise PartitaError("Every point of the sweep diverges. Try smaller learning rates.")
        return max(known, key=lambda each: self.metric.gain(fmean(each.validation), 0.0))

    def table(self) -> Table:
        """Validation scores of all points, and the test score of the chosen point, which took no part in the choice."""
        chosen, seeds = self.chosen, max(len(each.validation) for each in self.tried)
        keys = list(self.tried[0].point.settings)
        rows = [
            [
                *each.point.settings.values(),
                self._text(each.validation) if each.runs else "diverged",
                self._text(each.test) if each is chosen else NONE,
                "chosen" if each is chosen else "",
            ]
            for each in self.tried
        ]
        name = self.metric.name
        note = f"Mean over clients and {amount(seeds, 'seed')}{', ± half of its 95 % interval' if seeds > 1 else ''}."
        return Table([*keys, f"validation {name}", f"test {name}", ""], rows, note=note)

    def as_dict(self) -> dict[str, Any]:
        chosen = self.chosen
        return {
            "metric": self.metric.name,
            "points": [
                {
                    "settings": dict(each.point.settings),
                    "folder": str(each.point.folder),
                    "validation": each.validation,
                    "diverged": each.runs is None,
                }
                for each in self.tried
            ],
            "chosen": {"settings": dict(chosen.point.settings), "test": chosen.test},
        }

    def _text(self, scores: Sequence[float]) -> str:
        half = half_width(scores)
        return self.metric.text(fmean(scores)) if half is None else self.metric.spread(fmean(scores), half)


def read_grid(texts: Sequence[str]) -> dict[str, list[str]]:
    """The grid that texts such as `algorithm.optimizer.lr=0.03,0.1` describe."""
    found: dict[str, list[str]] = {}
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not key or not values:
            raise PartitaError(f"{text!r} is not of the form key=value,value, as in algorithm.optimizer.lr=0.03,0.1.")
        if key in found:
            raise PartitaError(f"{key} is swept twice. Give all its values at once.")
        if key == "seed":
            raise PartitaError("Seeds are not chosen: repeat every point with --seeds COUNT.")
        found[key] = values_of(values)
    return found


def points_of(
    grid: Grid, folder: Path, *, file: Path | None = None, overrides: Sequence[str] = (), trust: bool = False
) -> list[Point]:
    """Every point of a grid, checked before the first of them runs. Equal data are read once."""
    if not grid:
        raise PartitaError("Nothing is swept. Name settings and their values: --over algorithm.optimizer.lr=0.03,0.1")
    if (count := math.prod(map(len, grid.values()))) > MOST_POINTS:
        raise PartitaError(
            f"The grid has {count:,} points, and at most {MOST_POINTS:,} are allowed. Sweep fewer values."
        )
    data: dict[str, Experiment] = {}
    found = []
    for values in itertools.product(*grid.values()):
        chosen = dict(zip(grid, values, strict=True))
        point = [f"{key}={value}" for key, value in chosen.items()]
        settings = read(file, [*overrides, *point], trust=trust)
        asked = json.dumps(data_of(settings), sort_keys=True, default=str)
        experiment = make(settings, data[asked].data if asked in data else None)
        data.setdefault(asked, experiment)
        if not any(len(roles["validation"]) for roles in experiment.data.roles):
            raise PartitaError("The data hold no validation samples to choose by. Set data.validation=0.2.")
        found.append(Point(chosen, experiment, folder_for(experiment.algorithm.name, experiment, folder)))
    return found


def sweep(
    points: Sequence[Point], *, seeds: int = 1, on: Executor | str | None = None, on_event: OnEvent = ignore
) -> Sweep:
    """Run every point under every seed, or resume it; finished runs are only read."""
    tried = [Tried(point, _runs(point, seeds, on, on_event)) for point in points]
    known = next((each.runs for each in tried if each.runs), None)
    return Sweep(tried, Metric(known[0].stored.record.metric if known else "accuracy"))


def _runs(point: Point, seeds: int, on: Executor | str | None, on_event: OnEvent) -> Runs | None:
    try:
        return keep_seeds(point.experiment, point.folder, seeds, baselines=False, on=on, on_event=on_event)
    except DivergedError:
        return None
