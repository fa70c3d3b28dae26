"""What do stored scores say of a number, and how sure is it? Seeds and clients are drawn again with replacement."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..evaluation.metric import Metric
from ..evaluation.resampling import RESAMPLES, middle
from ..formatting import signed
from .recipe import Number, Recipe, runs_of
from .result import RecipeResult, RunResult

Values = npt.NDArray[np.float64]
NEAR = 0.5
"""The rounds to the best are those to a mean that is so near to it, in points."""


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores that a number is made of, as an array (seeds, clients) or (rounds, seeds, clients); of a weight of 0,
    none."""

    key: tuple[object, ...]
    """Scores with the same key are of the same clients, data and seeds, and so paired."""
    number: Number
    unit: str
    values: Values
    weights: Values
    rounds: tuple[int, ...] = ()

    @property
    def value(self) -> float:
        seeds, clients = self.weights.shape
        return float(self._statistic(np.ones((1, seeds)), np.ones((1, clients)))[0])

    @cached_property
    def drawn(self) -> Values:
        """The statistic of samples in which a score counts as often as its seed was drawn times its client."""
        return self.drawn_with(0)

    def drawn_with(self, seed: int) -> Values:
        draw = np.random.default_rng(seed)
        of_seeds, of_clients = (
            draw.multinomial(size, np.full(size, 1 / size), RESAMPLES).astype(float) for size in self.weights.shape
        )
        return self._statistic(of_seeds, of_clients)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The middle 95 % of them; None for a single score."""
        return middle(self.drawn[np.isfinite(self.drawn)]) if (self.weights > 0).sum() > 1 else None

    def _statistic(self, seeds: Values, clients: Values) -> Values:
        if self.number.statistic == "rounds":
            means = np.stack([self._mean(seeds, clients, each) for each in self.values], 1)
            reached = means >= means.max(1, keepdims=True) - NEAR
            first_near: Values = np.array(self.rounds, dtype=float)[reached.argmax(1)]
            return first_near
        if self.number.statistic == "spread":
            counts = clients @ self.weights.T
            with np.errstate(invalid="ignore", divide="ignore"):
                first = clients @ (self.weights * self.values).T / counts
                second = clients @ (self.weights * self.values**2).T / counts
            found: Values = (seeds * np.sqrt(np.maximum(second - first**2, 0))).sum(1) / seeds.sum(1)
            return found
        return self._mean(seeds, clients, self.values)

    def _mean(self, seeds: Values, clients: Values, values: Values) -> Values:
        with np.errstate(invalid="ignore", divide="ignore"):
            found: Values = (seeds * (clients @ (self.weights * values).T)).sum(1) / (
                seeds * (clients @ self.weights.T)
            ).sum(1)
        return found


@dataclass(frozen=True)
class Difference:
    """One number minus another, in the unit of both."""

    mean: float
    interval: tuple[float, float] | None
    unit: str

    @property
    def text(self) -> str:
        ends = f" ({signed(self.interval[0], 2)} to {signed(self.interval[1], 2)})" if self.interval else ""
        return f"{signed(self.mean, 2)} {self.unit}{ends}"

    def surely_above(self, least: float) -> bool:
        return self.interval is not None and self.interval[0] > least

    def surely_below(self, least: float) -> bool:
        return self.interval is not None and self.interval[1] < least


class Found:
    """What a stored result says of the numbers of its recipe; each is worked out once."""

    def __init__(self, recipe: Recipe, result: RecipeResult | None) -> None:
        self.recipe, self.result = recipe, result
        self._scores: dict[str, Scores | None] = {}

    def run(self, number: Number) -> RunResult | None:
        """The run of a number; of several, the one that is best on validation data, if at least two are stored."""
        stored = self.result.runs if self.result else {}
        names = runs_of(number)
        found = [stored[name] for name in names if name in stored]
        return best_validated(found) if len(found) >= min(len(names), 2) and found else None

    def scores(self, number: Number) -> Scores | None:
        """None where the stored runs do not have them."""
        if number.name not in self._scores:
            run = self.run(number)
            self._scores[number.name] = self._read(run, number) if run else None
        return self._scores[number.name]

    def difference(self, higher: Number, lower: Number) -> Difference | None:
        """In pairs where both are of the same clients and seeds, else of independent samples."""
        one, other = self.scores(higher), self.scores(lower)
        if one is None or other is None:
            return None
        drawn = one.drawn - (other.drawn if one.key == other.key else other.drawn_with(1))
        single = (one.weights > 0).sum() == 1 or (other.weights > 0).sum() == 1
        return Difference(one.value - other.value, None if single else middle(drawn[np.isfinite(drawn)]), one.unit)

    def baseline(self, name: str) -> Scores | None:
        """Scores of a baseline (floor, local, global, global + fine-tune), averaged as the recipe's first number."""
        run = self.result.baselines.get(name) if self.result else None
        average = self.recipe.numbers[0].average if self.recipe.numbers else "macro"
        return self._read(run, Number(name=name, average=average)) if run else None

    def _read(self, run: RunResult, number: Number) -> Scores | None:
        lower_is_better = Metric(run.metric).lower_is_better
        scale = 1.0 if lower_is_better else 100.0
        unit = run.metric if lower_is_better else "points"
        key = (run.fingerprint, tuple(run.clients), tuple(run.seeds))
        weights = np.ones((len(run.seeds), len(run.clients)))
        if number.average == "micro":
            weights = weights * np.array(run.samples, dtype=float)
        weights = weights * _chosen(run, number)
        if number.statistic == "rounds":
            if run.course is None:
                return None
            course = np.array([run.course.test[seed] for seed in run.seeds], dtype=np.float64)
            by_round: Values = (scale * course).transpose(1, 0, 2)
            return Scores(key, number, "rounds", by_round, weights, tuple(run.course.rounds))
        stored = run.scores.get(number.score or run.variant)
        if stored is None:
            return None
        values = scale * np.array([stored[seed] for seed in run.seeds], dtype=np.float64)
        weights, values = np.where(np.isfinite(values), weights, 0.0), np.nan_to_num(values)
        if number.minus is not None:
            other = self.scores(self.recipe.number(number.minus))
            if other is None or other.key != key:
                return None
            values, weights = values - other.values, np.where(other.weights > 0, weights, 0.0)
        if number.statistic == "hurt":
            worse = values > 1e-9 if lower_is_better else values < -1e-9
            return Scores(key, number, "% of clients", 100.0 * worse.astype(np.float64), (weights > 0).astype(float))
        return Scores(key, number, unit, values, weights)


def best_validated(runs: Sequence[RunResult]) -> RunResult:
    """The run whose model is best on validation data after the last round, in the mean over seeds."""
    if len(runs) == 1:
        return runs[0]
    better = -1.0 if Metric(runs[0].metric).lower_is_better else 1.0
    return max(runs, key=lambda run: better * run.validated if run.validated is not None else -np.inf)


def _chosen(run: RunResult, number: Number) -> Values:
    """1 for the clients that a number is of, and 0 for others."""
    if number.among == "all":
        return np.ones(len(run.clients))
    order = np.argsort(run.sizes, kind="stable")
    half = order[: len(order) // 2] if number.among == "smaller" else order[(len(order) + 1) // 2 :]
    return np.isin(np.arange(len(order)), half).astype(float)
