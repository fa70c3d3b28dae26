"""FedSim with a matrix factorisation: a client is a person, and what is known of films is shared."""

from benchmarks.floor_network import Training
from benchmarks.made_up import ratings
from benchmarks.papers import measured
from benchmarks.workload import Workload
from partita.algorithms.fedsim import fedsim
from partita.core.optimizers import SGD
from partita.core.selectors import group
from partita.models.recommender import recommender


def workload() -> Workload:
    """FedSim, vectors of 1,682 films and of a person, 100 people with 100 ratings, 5 epochs, evaluated."""
    return measured(
        workload.__doc__,
        fedsim(personal=group("user"), epochs=5, optimizer=SGD(0.05)),
        recommender,
        ratings(clients=100, each=125, items=1682),
        [Training(0.05, epochs=5)],
        batch=20,
        evaluations=2,
    )


def quick() -> Workload:
    """The same."""
    return workload()
