"""What is added to a run once it is done? The baselines that it asks for, and the guard."""

from ..errors import PartitaError
from .baselines import add_baselines
from .guard import add_guard
from .session import Session


def complete(session: Session) -> None:
    """Make what is missing; what is there is used again."""
    if not session.record.baselines:
        return
    add_baselines(session)
    analyses = session.store.analyses
    if "guard" in analyses or "guard_failed" in analyses:
        return
    try:
        add_guard(session)
    except PartitaError as problem:
        # For instance where there are no validation data, or no global model.
        session.store.add_analysis("guard_failed", str(problem))
