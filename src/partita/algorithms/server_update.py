"""A server that holds a fraction of the data. Oh et al., 2022 (FedBABU, section 4), https://arxiv.org/abs/2106.06042"""

from dataclasses import replace

from ..core.algorithm import Algorithm, Refinement
from ..core.client import Client
from ..core.optimizers import SGD, Optimizer
from ..core.phases import Phase
from ..core.schedules import DECAY
from ..core.selectors import BODY, Selector
from ..core.signatures import Length, Share, configurable
from ..tensors import Tensors, only
from .fedavg import fedavg


@configurable
def server_update(
    *,
    on: Algorithm = fedavg(),
    fraction: Share = 0.1,
    part: Selector = BODY,
    epochs: Length = 1,
    optimizer: Optimizer = SGD(0.1, momentum=0.9, schedule=DECAY),
) -> Algorithm:
    """After each aggregation the server trains the body (or all) on its sample of the training data."""

    def upload(before: Tensors, after: Tensors, client: Client) -> tuple[Tensors, Tensors | None]:
        """What the method without the server's training would upload."""
        values, mask = on.upload(before, after, client)
        return only(values, on.shared(client.task.network, frozenset(values))), mask

    return replace(
        on,
        shared=on.shared | part,
        keep=on.keep if on.keep is not None else ~(on.shared | part),
        upload=upload,
        refinement=Refinement(fraction, (Phase(part, optimizer, epochs=epochs),)),
    )
