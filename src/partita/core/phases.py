"""What does a client train, how, and for how long?"""

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from itertools import count, islice

from torch import Tensor

from ..randomness import Moment
from ..tensors import Tensors, network_name
from .client import Client
from .gradients import PLAIN_GRADIENT, Estimator
from .network import Network
from .optimizers import Optimizer
from .penalties import Penalty
from .samples import Samples
from .selectors import Selector
from .signatures import Length, check_fields
from .views import PLAIN, View

Objective = Callable[[Tensors, Samples, Client], Tensor]
"""A loss that is more than the network's outputs against the targets."""

Transform = Callable[[Tensors, Client], Tensors]
"""A function between phases, from a client's tensors to new ones. The first line of its docstring describes it."""


@dataclass(frozen=True)
class Phase:
    """Train a selection of the client's tensors; all others are constants.

    A phase lasts `epochs`, or `steps`, or both: then whichever ends first. Without either it is one epoch.
    """

    train: Selector
    optimizer: Optimizer
    _: KW_ONLY
    epochs: Length | Callable[[Client], int] | None = None
    steps: Length | None = None
    until: Callable[[list[float]], bool] | None = None
    """Ends the phase early, judged after each epoch by the mean losses of all epochs so far."""
    penalty: Penalty | None = None
    gradient: Estimator = PLAIN_GRADIENT
    view: View = PLAIN
    objective: Objective | None = None
    """Replaces the task's loss."""
    project: Callable[[str, Tensor], Tensor] | None = None
    """Projects each trained tensor, given by name, onto its feasible set after a step."""
    samples: Callable[[Client], Samples] = lambda client: client.train
    carry: bool = False
    """Continue with the optimizer state of the phase before, and leave it to the next."""
    on_epoch: Callable[[Tensors, Client], None] | None = None
    """Called after each epoch with a copy of the client's tensors."""

    def __post_init__(self) -> None:
        check_fields(self)

    def trained(self, network: Network, names: frozenset[str]) -> frozenset[str]:
        """The selected tensors that can be trained: not running statistics, not what the network itself freezes."""
        fixed = network.buffers | network.frozen
        return frozenset(name for name in self.train(network, names) if network_name(name) not in fixed)

    def loss(self, tensors: Tensors, batch: Samples, client: Client) -> Tensor:
        if self.objective:
            return self.objective(tensors, batch, client)
        weights = self.view.weights(tensors, client.task.network)
        return client.task.loss(client.task.outputs(weights, batch.inputs), batch.targets)

    def length(self, client: Client) -> tuple[int | None, int | None]:
        """Epochs and steps, None for no limit."""
        if self.epochs is None:
            return (None, self.steps) if self.steps is not None else (1, None)
        return (self.epochs(client) if callable(self.epochs) else self.epochs), self.steps

    def moments(self, client: Client, samples: Samples) -> Iterator[tuple[Moment, list[Samples]]]:
        """The steps of the phase: when, and on which batches of the samples. The same for every runner."""
        epochs, steps = self.length(client)
        taken = count()
        per_epoch = client.batches_per_epoch(len(samples)) // self.gradient.batches
        if not per_epoch:
            return
        for epoch in range(epochs) if epochs is not None else count():
            batches = client.batches(samples, epoch)
            for step in range(per_epoch):
                if steps is not None and next(taken) >= steps:
                    return
                yield client.at(epoch, step), [next(batches) for _ in range(self.gradient.batches)]

    def rows(self, client: Client) -> Iterator[Tensor]:
        """The batches of those steps by the numbers of their samples, where a step takes one batch."""
        samples = len(self.samples(client))
        epochs = count() if client.batches_per_epoch(samples) else ()
        every = (rows for epoch in epochs for rows in client.rows(samples, epoch))
        return islice(every, self.steps_taken(client))

    def steps_taken(self, client: Client) -> int:
        """How many steps the phase makes (if `until` does not end it)."""
        epochs, steps = self.length(client)
        per_epoch = client.batches_per_epoch(len(self.samples(client))) // self.gradient.batches
        whole = None if epochs is None else epochs * per_epoch
        return min(limit for limit in (whole, steps) if limit is not None)


Stage = Phase | Transform
