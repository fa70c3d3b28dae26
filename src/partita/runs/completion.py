"""What is added to a run once it is done? The baselines that it asks for."""

from pathlib import Path

from ..experiment import OnRound
from .baselines import add_baselines
from .once import OnWait
from .store import Store


def complete(folder: Path, on_round: OnRound | None = None, on_wait: OnWait | None = None) -> None:
    """Make what is missing; what is there is used again."""
    with Store.open(folder) as store:
        wanted = store.about["baselines"]
    if wanted:
        add_baselines(folder, on_round=on_round, on_wait=on_wait)
