"""How is a run completed? By its remaining rounds, its baselines and its guard."""

from collections.abc import Sequence

from ..experiment.events import Event
from ..runs.complete import complete
from ..runs.plan import planned
from ..runs.session import Session
from ..runs.trackers.tracking import tracking


def finish(session: Session, track: Sequence[str] = ()) -> None:
    """Complete a run. Trackers receive its own rounds, not those of its baselines."""
    session.on_event(planned(session))
    with tracking(track, session.experiment, session) as tracked:

        def tell(event: Event) -> None:
            session.on_event(event)
            tracked(event)

        session.run(tell)
    complete(session)
