"""SCAFFOLD. Karimireddy et al., 2020, https://arxiv.org/abs/1910.06378"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from ..core.algorithm import Algorithm
from ..core.client import Client
from ..core.gradients import GradientAt
from ..core.network import Network
from ..core.optimizers import SGD
from ..core.phases import Phase
from ..core.samples import Samples
from ..core.selectors import NETWORK, below
from ..core.server import Aggregation, Mean, Update, weight_of
from ..core.signatures import Length, Rate, configurable
from ..randomness import Moment
from ..tensors import Tensors, only, under


@configurable
def scaffold(
    *, epochs: Length = 1, optimizer: SGD = SGD(0.1), server_lr: Rate = 1.0,
    weights: Literal["uniform", "samples"] = "uniform",
) -> Algorithm:  # fmt: skip
    """Correct every step by the difference of the server's and the client's control variates.

    The paper's clients count alike. With `weights="samples"` a client counts by its training samples, both in the mean
    of the models and in the server's control variate, which stays the mean of all clients' in these weights.
    """
    train = Phase(NETWORK, optimizer, epochs=epochs, gradient=Corrected())

    def renew_control(tensors: Tensors, client: Client) -> Tensors:
        """New control variate of the client: c_i - c + (x - y) / (K lr), the paper's option II."""
        travelled = train.steps_taken(client) * optimizer.lr * optimizer.schedule(client.moment)
        if not travelled:
            return tensors
        return tensors | {
            "own_control/" + name: own
            - tensors["control/" + name]
            + (client.received[name] - tensors[name]) / travelled
            for name, own in under("own_control/", tensors).items()
        }

    return Algorithm(
        shared=NETWORK | below("control/"),
        expand=_with_controls,
        phases=(train, renew_control),
        upload=_weights_and_control_change,
        server=ScaffoldServer(server_lr, weights),
    )


@dataclass(frozen=True)
class Corrected:
    """The gradient plus the server's control variate minus the client's."""

    batches: int = 1

    def __call__(
        self, gradient_at: GradientAt, trained: Tensors, batches: Sequence[Samples], tensors: Tensors
    ) -> tuple[Tensors, Tensors]:
        gradient = gradient_at(trained, batches[0])
        return {n: g + tensors["control/" + n] - tensors["own_control/" + n] for n, g in gradient.items()}, {}


@dataclass(frozen=True)
class ScaffoldServer:
    """Averages the weights; the control variate moves by the participating share of the population.

    x <- x + lr sum_S w_i (y_i - x) / sum_S w_i, and c <- c + sum_S w_i (c_i' - c_i) / sum_all w_i, for S who take part.
    """

    lr: float
    weights: Literal["uniform", "samples"] = "uniform"
    sees_single_models: bool = False

    def init(self, shared: Tensors, sizes: Sequence[int]) -> Tensors:
        return shared | {"server/population": torch.tensor(len(sizes) if self.weights == "uniform" else sum(sizes))}

    def download(self, state: Tensors, client: int, moment: Moment) -> Tensors:
        return Aggregation().download(state, client, moment)

    def aggregate(self, state: Tensors, updates: Sequence[Update], moment: Moment, network: Network) -> Tensors:
        share = sum(weight_of(update, self.weights) for update in updates) / int(state["server/population"])
        optimizer = SGD(1.0, rates=((NETWORK, self.lr), (below("control/"), share)))
        return Aggregation(Mean(self.weights), optimizer=optimizer).aggregate(state, updates, moment, network)


def _with_controls(client: Client) -> Tensors:
    weights = only(client.task.weights, client.task.network.parameters)
    zeros = {name: torch.zeros_like(tensor) for name, tensor in weights.items()}
    return client.task.weights | {p + name: zero for p in ("control/", "own_control/") for name, zero in zeros.items()}


def _weights_and_control_change(before: Tensors, after: Tensors, client: Client) -> tuple[Tensors, Tensors | None]:
    """The weights, and the server's control variate plus the change of the client's own."""
    controls = {
        "control/" + name: before["control/" + name] + own - before["own_control/" + name]
        for name, own in under("own_control/", after).items()
    }
    return after | controls, None
