"""FedAvg with sparse uploads."""

from dataclasses import replace

from partita.algorithms._masks import top_fraction
from partita.algorithms.fedavg import fedavg
from partita.core.algorithm import Algorithm
from partita.core.client import Client
from partita.core.optimizers import SGD, Optimizer
from partita.errors import PartitaError
from partita.signatures import configurable
from partita.tensors import Tensors


@configurable
def sparse_fedavg(*, fraction: float = 0.1, epochs: int = 1, optimizer: Optimizer = SGD(0.1)) -> Algorithm:
    """Train the whole network locally; of each tensor upload the fraction of the entries that changed most.

    An entry is averaged over those who sent it. What is not sent is lost: nothing is saved up for later rounds.
    """
    if not 0 < fraction <= 1:
        raise PartitaError(f"sparse_fedavg: a fraction of {fraction} cannot be sent. Choose it above 0 and at most 1.")

    def upload(before: Tensors, after: Tensors, client: Client) -> tuple[Tensors, Tensors]:
        """The entries that changed most; running statistics, if there are any, as a whole."""
        changes = {name: (after[name] - before[name]).abs() for name in client.task.network.parameters}
        return after, {name: top_fraction(change, fraction) for name, change in changes.items()}

    return replace(fedavg(epochs=epochs, optimizer=optimizer), upload=upload)
