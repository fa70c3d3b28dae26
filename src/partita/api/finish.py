"""What is done until a run is complete? The rounds that are left, its baselines and its guard."""

from collections.abc import Sequence

from ..runs.complete import complete
from ..runs.plan import planned
from ..runs.session import Session
from ..simulation.events import Event
from ..trackers.tracking import tracking


def finish(session: Session, track: Sequence[str] = ()) -> None:
    """Go on with a run to its end; trackers are told its own rounds, and not those of baselines."""
    session.on_event(planned(session))
    with tracking(track, session.experiment, session) as tracked:

        def tell(event: Event) -> None:
            session.on_event(event)
            tracked(event)

        session.run(tell)
    complete(session)
