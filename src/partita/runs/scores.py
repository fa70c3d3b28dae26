"""Which scores do runs have in common? By method, seed and client, for a comparison."""

from collections.abc import Sequence

from ..comparison import Scores
from ..errors import PartitaError
from .grouping import grouped
from .view import View


def scores_of(views: Sequence[View]) -> dict[str, Scores]:
    """Each method's test score by (seed, client), of the model it is meant to be used with, after its last round.

    Runs that differ in the seed alone belong together; other settings of the same method get a name of their own.
    """
    for view in views:
        if view.done < view.about["rounds"]:
            raise PartitaError(f"{view.folder} is not done. Continue it with: partita resume {view.folder}")
    if len(metrics := {view.about["metric"] for view in views}) > 1:
        raise PartitaError(f"Runs of different metrics cannot be compared: {', '.join(sorted(metrics))}.")
    return {
        name: {
            (int(view.about["settings"].get("seed", 0)), record.client): record.score
            for view in runs
            for record in view.records
            if record.round == view.done
            and record.role == "test"
            and record.model == view.about["model"]
            and record.client not in view.about["newcomers"]
        }
        for name, runs in grouped(views).items()
    }
