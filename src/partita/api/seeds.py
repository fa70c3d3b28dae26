"""Runs under several seeds: the methods of one run, with means over the seeds; and the comparison of runs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from ..evaluation.analyses.guard import over_seeds as guard_over_seeds
from ..evaluation.analysis import Analysis, declared, means_over_seeds
from ..evaluation.comparison import Comparison
from ..evaluation.guard import PRIOR
from ..evaluation.scores import Summary
from ..evaluation.seeds import Mean
from ..evaluation.variants import Variant
from ..experiment.events import OnEvent, ignore
from ..report import REPORT
from ..report.report import write_report
from ..runs.evaluate import Evaluated
from ..runs.gathering import gather
from ..runs.scores import compare_stored
from .kept import Run, as_table, rows_of


@dataclass(frozen=True)
class SeedsEvaluated:
    """What analyses found under several seeds."""

    runs: Sequence[Evaluated]
    """One for each seed."""
    means: dict[str, dict[str, dict[str, Mean]]]
    """The means over seeds by analysis, row and column."""


class Runs(Sequence[Run]):
    """Runs of one experiment under several seeds, on the same division of the data."""

    def __init__(self, folder: Path, runs: Sequence[Run]) -> None:
        self.folder, self._runs = folder, tuple(runs)

    @overload
    def __getitem__(self, at: int) -> Run: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[Run]: ...

    def __getitem__(self, at: int | slice) -> Run | Sequence[Run]:
        return self._runs[at]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __repr__(self) -> str:
        return f"Runs({str(self.folder)!r}: {len(self)} seeds)"

    def score(self, variant: Variant | None = None) -> list[Summary]:
        """One for each seed."""
        return [run.score(variant) for run in self]

    def table(self) -> Any:
        """All records with their seed: a pandas data frame if pandas is installed, else a list of dictionaries."""
        return as_table([{"seed": run.stored.seed, **row} for run in self for row in rows_of(run)])

    def report(self, path: Path | str | None = None) -> Path:
        """Write one report of all seeds; by default into the folder that holds them."""
        return write_report([run.folder for run in self], Path(path) if path else self.folder / REPORT)

    def evaluate(self, *analyses: Analysis, trust: bool = False, on_event: OnEvent = ignore) -> SeedsEvaluated:
        """Analyse the models of every seed, by default with every analysis that applies, and keep the results."""
        several = [run.evaluate(*analyses, trust=trust, on_event=on_event) for run in self]
        chosen = analyses or tuple(declared("asked").values())
        return SeedsEvaluated(several, means_over_seeds(chosen, [each.found for each in several]))

    def guard(
        self,
        *,
        global_run: Path | str | None = None,
        prior: float = PRIOR,
        trust: bool = False,
        on_event: OnEvent = ignore,
    ) -> dict[str, Any]:
        """Guard every seed: clients hurt of all seeds together, means over seeds, the interval of the difference."""
        given: dict[str, Any] = {"global_run": global_run, "prior": prior, "trust": trust, "on_event": on_event}
        return guard_over_seeds([run.guard(**given) for run in self])


def compare(*runs: Run | Runs | Path | str, baseline: str | None = None, level: float = 0.95) -> Comparison:
    """Compare runs, paired over clients and seeds: differences with intervals, corrected tests, wins and losses.

    Damaged and unfinished runs are named in the notes. Methods that are not on equal terms, for instance of
    another number of rounds, are marked; those on other clients are refused.
    """
    gathered = gather([each.folder if isinstance(each, Run | Runs) else Path(each) for each in runs], finished=True)
    return compare_stored(gathered, baseline=baseline, level=level)
