"""How is a finished run analysed? Analyses use its stored models, and their results are kept in the run."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from ..errors import PartitaError
from ..evaluation.analysis import Analysis, NotApplicable, Result, declared
from ..evaluation.population import Population
from ..experiment.events import Analysed
from ..threads import one_thread
from .clients import stored_clients
from .measuring import apply_in_workers
from .session import Session
from .unfinished import forget_unfinished
from .verify import check


@dataclass(frozen=True)
class Evaluated:
    """The results of analyses by name, and why others were left out."""

    found: dict[str, Result] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def evaluate(session: Session, analyses: Sequence[Analysis] | None = None, *, lenient: bool = False) -> Evaluated:
    """Apply analyses to a run that is done, by default all that apply, and keep each result as soon as it is there.

    An analysis that is given and does not apply is an error, unless `lenient`: then it is left out, with the reason.
    """
    session.need_done()
    check(session.store)
    made = Evaluated()
    for analysis in declared("asked").values() if analyses is None else analyses:
        try:
            made.found[analysis.name] = analyse(session, analysis)
        except PartitaError as problem:
            if not lenient and analyses is not None:
                raise
            made.left_out[analysis.name] = problem.reason if isinstance(problem, NotApplicable) else str(problem)
    return made


def analyse(session: Session, analysis: Analysis) -> Result:
    """Apply one analysis to a run that is done, and keep the result."""
    session.need_done()
    with ExitStack() as opened, one_thread():
        population = replace(
            stored_clients(session),
            open=partial(_open, session, opened),
            on_client=lambda done, total: session.on_event(Analysed(analysis.name, done, total)),
            apply=partial(apply_in_workers, session),
        )
        found = analysis(population)
    session.store.add_analysis(analysis.name, found)
    forget_unfinished(session.store, analysis.name)
    return found


def _open(session: Session, opened: ExitStack, folder: Path) -> Population:
    """The clients of a run that is done: this one, or one beside it."""
    if folder.resolve() == session.folder.resolve():
        return stored_clients(session)
    beside = opened.enter_context(session.beside(folder))
    beside.need_done()
    return stored_clients(beside)
