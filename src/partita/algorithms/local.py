"""Local training only: no communication."""

from ..core.algorithm import Algorithm
from ..core.optimizers import SGD, Optimizer
from ..core.phases import Phase
from ..core.selectors import NETWORK, NOTHING
from ..core.signatures import Length, configurable


@configurable
def local(*, epochs: Length = 1, optimizer: Optimizer = SGD(0.1)) -> Algorithm:
    """Each client trains its own network; all begin with the same weights."""
    return Algorithm(shared=NOTHING, phases=(Phase(NETWORK, optimizer, epochs=epochs),))
