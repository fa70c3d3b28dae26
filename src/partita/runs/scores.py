"""Which scores do runs have in common? By method, seed and client, for a comparison."""

from collections.abc import Iterable, Sequence

from ..errors import PartitaError
from ..evaluation.comparison import Scores
from .grouping import grouped
from .stored import StoredRun


def scores_of(views: Sequence[StoredRun]) -> dict[str, Scores]:
    """Each method's test score by (seed, client), of the model it is meant to be used with, after its last round.

    Runs that differ in the seed alone belong together; other settings of the same method get a name of their own.
    """
    for run in views:
        if not run.finished:
            raise PartitaError(f"{run.folder} is not done. Continue it with: partita resume {run.folder}")
    if len(metrics := {run.record.metric for run in views}) > 1:
        raise PartitaError(f"Runs of different metrics cannot be compared: {', '.join(sorted(metrics))}.")
    return {name: pooled(runs) for name, runs in grouped(views).items()}


def pooled(runs: Iterable[StoredRun]) -> Scores:
    """Of one method under several seeds."""
    return {(run.seed, client): score for run in runs for client, score in run.scores().items()}
