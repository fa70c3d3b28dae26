"""What is added to a run once it is done? The baselines that it asks for, and the analyses that belong to its end."""

from ..errors import PartitaError
from ..evaluation.analysis import declared
from .baselines import add_baselines
from .evaluate import analyse
from .session import Session


def complete(session: Session) -> None:
    """Make what is missing; what is there is used again.

    Why an analysis could not be made is noted under its name with `_failed`: for instance that there are no validation
    data for the guard, or no global model.
    """
    if not session.record.baselines:
        return
    add_baselines(session)
    there = session.store.analyses
    for name, analysis in declared("end").items():
        if name in there or f"{name}_failed" in there:
            continue
        try:
            analyse(session, analysis)
        except PartitaError as problem:
            session.store.add_analysis(f"{name}_failed", str(problem))
