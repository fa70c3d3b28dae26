"""How is something measured of every client of a run? In all workers, and what is found is kept as it comes.

A long measurement that is interrupted or killed continues from the stored results.
"""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from ..evaluation.population import Beside, Measure, Population
from ..experiment.jobs import Apply, batches_of
from .session import Session
from .unfinished import add_unfinished, unfinished

TOGETHER = 200
"""Clients whose results are written in one transaction."""


def apply_in_workers(
    session: Session, population: Population, what: str, measure: Measure, beside: Beside | None
) -> Iterator[tuple[int, Any]]:
    """What is measured of each client, in any order; `what` is the name under which it is kept until all is there."""
    store, wanted = session.store, set(population)
    known = {number: found for number, found in unfinished(store, what).items() if number in wanted}
    yield from known.items()
    fresh: dict[int, Any] = {}
    try:
        for number, found in _measured(session, population, measure, beside, known):
            fresh[number] = found
            if len(fresh) == TOGETHER:
                add_unfinished(store, what, fresh)
                fresh = {}
            yield number, found
    except BaseException:
        add_unfinished(store, what, fresh)
        raise


def _measured(
    session: Session, population: Population, measure: Measure, beside: Beside | None, known: dict[int, Any]
) -> Iterator[tuple[int, Any]]:
    setup, (done, state) = session.setup(), session.finished_state()
    left = [number for number in population if number not in known]
    if not left:
        return
    states, moment = session.states(), setup.moment(done)
    ordered = sorted(left, key=lambda number: (-setup.data.size(number), number))
    jobs = (
        Apply(
            some,
            [states.get(each, {}) for each in some],
            [setup.download(state, each, moment) for each in some],
            moment,
            measure,
            [beside(each) if beside else None for each in some],
        )
        for some in batches_of(ordered, setup)
    )
    with session.executor.open(setup) as carry_out, closing(carry_out(jobs, state)) as results:
        for result in results:
            yield result.client, result.measured
