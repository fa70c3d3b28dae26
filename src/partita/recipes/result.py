"""What is kept of a recipe that was run? One small JSON file: scores by seed and client, settings and machine."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..errors import PartitaError
from ..evaluation.resampling import Pair
from ..evaluation.variants import Variant
from ..parsing import parse_json
from .recipe import Size

FORMAT = 1
DIGITS = 5
"""Scores are kept to so many decimals."""
SIZES: tuple[Size, ...] = ("full", "small")


@dataclass(frozen=True)
class RunResult:
    """What one run of a recipe found, under all its seeds."""

    settings: Mapping[str, str]
    rounds: int
    metric: str
    variant: Variant
    fingerprint: str
    """Of the data and their division."""
    seconds: float
    """All rounds of all seeds."""
    clients: Sequence[str]
    samples: Sequence[int]
    """Test samples of each client."""
    scores: Mapping[Variant, Mapping[str, Sequence[float]]]
    """By variant and seed, for each client, after the last round."""
    choice: str = ""
    """Of a baseline: how its settings were chosen."""

    @property
    def seeds(self) -> list[str]:
        return list(self.scores[self.variant])

    def pairs(self, variant: Variant | None) -> dict[Pair, float] | None:
        """Scores by (seed, client); None where the run has no such variant."""
        found = self.scores.get(variant or self.variant)
        if found is None:
            return None
        return {(int(seed), at): value for seed, values in found.items() for at, value in enumerate(values)}

    @property
    def weights(self) -> dict[int, float]:
        return dict(enumerate(map(float, self.samples)))


@dataclass(frozen=True)
class RecipeResult:
    recipe: str
    size: Size
    command: str
    date: str
    environment: Mapping[str, Any]
    """Versions, system, cores and commit."""
    runs: Mapping[str, RunResult]
    baselines: Mapping[str, RunResult] = field(default_factory=dict)
    """Floor, local, global, and global with fine-tuning, on the clients of the first run."""


def result_path(folder: Path, recipe: str, size: Size) -> Path:
    return folder / (f"{recipe}.json" if size == "full" else f"{recipe}-{size}.json")


def write_result(folder: Path, result: RecipeResult) -> Path:
    path = result_path(folder, result.recipe, result.size)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"format": FORMAT, **asdict(result)}, indent=1, ensure_ascii=False)
    # A list of numbers or names stands in one line.
    text = re.sub(r"\[[^\[\]{}]*\]", lambda found: re.sub(r"\s*\n\s*", " ", found[0]), text)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def read_results(folder: Path, recipe: str) -> Iterator[RecipeResult]:
    """The stored results of a recipe, the full one first."""
    for size in SIZES:
        if (path := result_path(folder, recipe, size)).is_file():
            yield _read(path)


def results_or_none(folder: Path, recipe: str) -> Sequence[RecipeResult | None]:
    """The same, or one None where nothing is stored, so that this can be told too."""
    return list(read_results(folder, recipe)) or [None]


def _read(path: Path) -> RecipeResult:
    try:
        given = parse_json(path.read_text(encoding="utf-8"))
        if given.pop("format") != FORMAT:
            raise ValueError("it is of another format")
        for part in ("runs", "baselines"):
            given[part] = {name: _checked(RunResult(**each)) for name, each in given[part].items()}
        return RecipeResult(**given)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as problem:
        raise PartitaError(f"Cannot read the result {path}: {problem}. Make it again: partita recipe run") from problem


def _checked(run: RunResult) -> RunResult:
    lengths = {len(run.samples), *(len(values) for seeds in run.scores.values() for values in seeds.values())}
    if lengths != {len(run.clients)} or run.variant not in run.scores:
        raise ValueError("its scores do not fit its clients")
    return run
