"""Which scores are compared? Those of each method, by seed and client."""

from collections.abc import Iterable, Sequence

from ..errors import PartitaError, unknown
from ..evaluation.comparison import Comparison, Scores, compare
from .gathering import Gathered
from .grouping import grouped
from .likeness import marks, need_same_clients
from .stored import StoredRun


def compare_stored(gathered: Gathered, *, baseline: str | None = None, level: float = 0.95) -> Comparison:
    """Compare runs that are done, paired over clients and seeds; skipped runs are named in the notes."""
    groups = grouped(gathered.runs)
    scores = scores_of(gathered.runs)
    chosen = baseline or next(iter(groups))
    if chosen not in groups:
        raise PartitaError(unknown("method", chosen, groups))
    need_same_clients(groups, chosen)
    return compare(
        scores,
        baseline=chosen,
        level=level,
        lower_is_better=gathered.runs[0].metric.lower_is_better,
        marks=marks(groups),
        settings={name: runs[0].record.settings_text for name, runs in groups.items()},
        notes=[str(each) for each in gathered.skipped],
        name_of=gathered.runs[0].record.name_of,
    )


def scores_of(runs: Sequence[StoredRun]) -> dict[str, Scores]:
    """The test scores of each method by (seed, client), after its last round.

    They are of the variant that the method is meant to be used with. Runs that differ only in the seed count as one
    method; the same algorithm with other settings gets a separate name.
    """
    for run in runs:
        if not run.finished:
            raise PartitaError(f"{run.folder} is not finished. Continue it with: partita resume {run.folder}")
    if len(metrics := {run.record.metric for run in runs}) > 1:
        raise PartitaError(f"Runs of different metrics cannot be compared: {', '.join(sorted(metrics))}.")
    return {name: pooled(group) for name, group in grouped(runs).items()}


def pooled(runs: Iterable[StoredRun]) -> Scores:
    """The scores of one method under several seeds. Two different runs with the same seed are an error."""
    found: dict[tuple[int, int], float] = {}
    for run in runs:
        for client, score in run.scores().items():
            if found.setdefault((run.seed, client), score) != score:
                raise PartitaError(
                    f"{run.folder} has other scores than another run of the same method and seed {run.seed}: their "
                    "data or versions differ. Compare one of them at a time."
                )
    return found
