"""What is added to a finished run? Its baselines, and the analyses that are made at the end of every run."""

from ..errors import PartitaError
from ..evaluation.analysis import declared
from .baselines import add_baselines
from .completeness import is_complete
from .evaluate import analyse
from .gains import named_baselines
from .session import Session
from .verify import check


def complete(session: Session) -> None:
    """Make what is missing; existing results are reused.

    If an analysis fails, the reason is recorded under its name with the suffix `_failed`: for instance, the guard needs
    validation data and a global model.
    """
    if not session.record.baselines:
        return
    if is_complete(stored := session.stored, named_baselines(stored, {})):
        return
    check(session.store)
    add_baselines(session)
    there = session.store.analyses
    for name, analysis in declared("end").items():
        # What failed is tried again: it may have needed a baseline that was missing.
        if name in there:
            continue
        try:
            analyse(session, analysis)
        except PartitaError as problem:
            session.store.add_analysis(f"{name}_failed", str(problem))
