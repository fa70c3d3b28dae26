"""Which models did a run leave? Every client's after the last round, built from the stored tensors."""

from dataclasses import replace
from pathlib import Path

from ..evaluation.population import Population
from ..experiment.population import population_at
from .session import Session


def stored_clients(session: Session) -> Population:
    """All clients of a run, including newcomers, with what they keep and receive after the last committed round."""
    done, state = session.finished_state()
    setup = session.setup()
    population = population_at(setup, setup.moment(done), lambda: state, session.states())
    named = session.store.analyses.get("baselines", [])
    baselines = {entry["name"]: Path(session.folder, entry["run"]) for entry in named}
    return replace(population, folder=session.folder, baselines=baselines)
