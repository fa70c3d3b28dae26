"""How many rounds lie ahead of a run? Its own, and those of the baselines that do not exist yet."""

from ..experiment.events import Planned
from .baselines import rounds_ahead
from .session import Session


def planned(session: Session) -> Planned:
    """All that a command will do for a run. Tuning may add rates to the baselines, and so rounds."""
    record, experiment = session.record, session.experiment
    done = sum(len(session.store.rounds(stage.name)) for stage in experiment.stages)
    ahead = sum(stage.rounds for stage in experiment.stages) - done
    beside = rounds_ahead(session) if record.baselines and "baselines" not in session.store.analyses else 0
    return Planned(record.label, record.data, record.clients, ahead, beside, tuple(record.notes))
