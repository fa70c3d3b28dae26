"""FedAvg with sparse uploads."""

import math
from dataclasses import replace

import torch
from torch import Tensor

from partita import SGD, Algorithm, Client, Optimizer, PartitaError, Tensors, configurable, fedavg


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
        return after, {name: largest(change, fraction) for name, change in changes.items()}

    return replace(fedavg(epochs=epochs, optimizer=optimizer), upload=upload)


def largest(values: Tensor, fraction: float) -> Tensor:
    """True at the largest fraction of the entries, rounded up."""
    mask = torch.zeros(values.numel(), dtype=torch.bool)
    mask[values.flatten().topk(math.ceil(fraction * values.numel())).indices] = True
    return mask.reshape(values.shape)
