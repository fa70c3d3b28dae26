"""Which scores do runs have in common? By method, seed and client, for a comparison."""

from collections.abc import Iterable, Sequence

from ..errors import PartitaError
from ..evaluation.comparison import Scores
from .grouping import grouped
from .view import View


def scores_of(views: Sequence[View]) -> dict[str, Scores]:
    """Each method's test score by (seed, client), of the model it is meant to be used with, after its last round.

    Runs that differ in the seed alone belong together; other settings of the same method get a name of their own.
    """
    for view in views:
        if not view.finished:
            raise PartitaError(f"{view.folder} is not done. Continue it with: partita resume {view.folder}")
    if len(metrics := {view.about["metric"] for view in views}) > 1:
        raise PartitaError(f"Runs of different metrics cannot be compared: {', '.join(sorted(metrics))}.")
    return {name: pooled(runs) for name, runs in grouped(views).items()}


def pooled(runs: Iterable[View]) -> Scores:
    """Of one method under several seeds."""
    return {(view.seed, client): score for view in runs for client, score in view.scores().items()}
