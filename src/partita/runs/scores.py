"""Which scores do runs have in common? By method, seed and client, for a comparison."""

from collections.abc import Sequence

from ..comparison import Scores
from ..errors import PartitaError
from .view import View


def scores_of(views: Sequence[View]) -> dict[str, Scores]:
    """Each method's test score by (seed, client), of the model it is meant to be used with, after its last round.

    Runs of one method under several seeds belong together; a second run of the same method and seed gets a name of its
    own.
    """
    found: dict[str, dict[tuple[int, int], float]] = {}
    for view in views:
        if view.done < view.about["rounds"]:
            raise PartitaError(f"{view.folder} is not done. Continue it with: partita resume {view.folder}")
        seed = int(view.about["settings"].get("seed", 0))
        records = [
            record
            for record in view.records
            if record.round == view.done
            and record.role == "test"
            and record.model == view.about["model"]
            and record.client not in view.about["newcomers"]
        ]
        name = view.about["label"]
        if any(known == seed for known, _ in found.get(name, {})):
            name = f"{name} ({view.folder.name})"
        found.setdefault(name, {}).update({(seed, record.client): record.score for record in records})
    if len(metrics := {view.about["metric"] for view in views}) > 1:
        raise PartitaError(f"Runs of different metrics cannot be compared: {', '.join(sorted(metrics))}.")
    return dict(found)
