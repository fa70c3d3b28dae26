"""Local training only: no communication."""

from ..algorithm import Algorithm
from ..optimizers import SGD, Optimizer
from ..phases import Phase
from ..selectors import NETWORK, NOTHING


def local(*, epochs: int = 1, optimizer: Optimizer = SGD(0.1)) -> Algorithm:
    """Each client trains its own network; all begin with the same weights."""
    return Algorithm("local", shared=NOTHING, phases=(Phase(NETWORK, optimizer, epochs=epochs),))
