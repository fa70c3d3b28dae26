"""How is a plan run over a SuperLink? As any experiment, on data that sites keep, with the sites as its executor."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ..simulation.experiment import Experiment
from .carrier import Carrier
from .plan import Plan
from .server import Limits, Sites, introduced
from .superlink import SuperLink
from .wire import listening


@contextmanager
def federated(plan: Plan, superlink: SuperLink, limits: Limits) -> Iterator[tuple[Experiment, Sites]]:
    """The experiment of a plan, after all sites introduced themselves, and what carries it out."""
    with (
        TemporaryDirectory() as place,
        listening(socket := Path(place) / "socket") as listener,
        closing(Carrier(plan.sites, listener, lambda: superlink.start_app(socket))) as carrier,
    ):
        yield plan.experiment_on(introduced(plan, carrier, limits)), Sites(plan, carrier, limits)
