"""What is added to a run once it is done? The baselines that it asks for, and the guard."""

from pathlib import Path

from ..errors import PartitaError
from ..experiment.experiment import OnRound
from .baselines import add_baselines
from .guarding import add_guard
from .once import OnWait
from .store import Store


def complete(folder: Path, on_round: OnRound | None = None, on_wait: OnWait | None = None) -> None:
    """Make what is missing; what is there is used again."""
    with Store.open(folder) as store:
        wanted = store.about["baselines"]
        guarded = "guard" in store.analyses
    if not wanted:
        return
    add_baselines(folder, on_round=on_round, on_wait=on_wait)
    if guarded:
        return
    try:
        add_guard(folder)
    except PartitaError as problem:
        # For instance where there are no validation data, or no global model.
        with Store.open(folder, write=True) as store:
            store.add_analysis("guard_failed", str(problem))
