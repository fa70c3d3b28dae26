"""How many rounds lie ahead of a run? Its own, and those of the baselines that are not there yet."""

import os
from pathlib import Path

from ..simulation.events import Planned
from .baselines import baselines_of
from .database import DATABASE
from .reuse import folder_for
from .session import Session


def planned(session: Session) -> Planned:
    """All that a command will do for a run."""
    record, experiment = session.record, session.experiment
    done = sum(len(session.store.rounds(stage.name)) for stage in experiment.stages)
    ahead = sum(stage.rounds for stage in experiment.stages) - done
    beside = 0
    if record.baselines:
        place = Path(os.path.normpath(session.folder / record.baselines))
        for baseline in baselines_of(experiment):
            if not (folder_for(baseline.name, baseline.experiment, place) / DATABASE).exists():
                beside += sum(stage.rounds for stage in baseline.experiment.stages)
    return Planned(record.label, record.data, record.clients, ahead, beside, tuple(record.notes))
