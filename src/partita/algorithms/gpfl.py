"""GPFL. Zhang et al., 2023, https://arxiv.org/abs/2308.10279"""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..core.algorithm import Algorithm
from ..core.client import Client
from ..core.optimizers import SGD
from ..core.phases import Phase
from ..core.samples import Samples
from ..core.selectors import BODY, HEAD, NETWORK, below
from ..core.signatures import Length, Strength, configurable
from ..core.views import PLAIN
from ..randomness import seeded
from ..tensors import Tensors

EMBEDDING, GLOBAL, PERSONAL = "gpfl/embedding", "condition/global", "condition/personal"


@configurable
def gpfl(
    *, strength: Strength = 0.01, weight_decay: Strength = 0.1, epochs: Length = 1, optimizer: SGD = SGD(0.005)
) -> Algorithm:
    """Learn class embeddings together, and see every feature under a global and a personal condition.

    `weight_decay` acts on the embeddings and the conditional network only. For deep networks the authors take a
    strength of 1e-4 and no decay.
    """

    def objective(tensors: Tensors, batch: Samples, client: Client) -> Tensor:
        """Personal classification, guidance by the embeddings, and nearness to one's class's embedding."""
        task, embedding = client.task, tensors[EMBEDDING]
        weights = PLAIN.weights(tensors, task.network)
        features = task.features(weights, batch.inputs)
        personal = condition(tensors, features, tensors[PERSONAL])
        general = condition(tensors, features, tensors[GLOBAL])
        cosine = F.normalize(general, dim=1) @ F.normalize(embedding, dim=1).T
        classified = task.loss(task.head_outputs(weights, personal), batch.targets)
        guided = F.cross_entropy(cosine, batch.targets)
        distance: Tensor = torch.linalg.vector_norm(general - embedding.detach()[batch.targets])
        return classified + guided + strength * distance

    return Algorithm(
        shared=BODY | below("gpfl/"),
        personal=HEAD,
        expand=_with_conditions,
        phases=(
            Phase(
                NETWORK | below("gpfl/"),
                replace(optimizer, weight_decay=weight_decay, decayed=below("gpfl/")),
                epochs=epochs,
                objective=objective,
            ),
            _renew_conditions,
        ),
        predict=_predict,
    )


def condition(tensors: Tensors, features: Tensor, given: Tensor) -> Tensor:
    """The conditional network: ReLU((1 + gamma) * features + beta), gamma and beta made of the condition."""

    def branch(name: str) -> Tensor:
        hidden = F.relu(F.linear(given, tensors[f"gpfl/{name}.weight"], tensors[f"gpfl/{name}.bias"]))
        return F.layer_norm(hidden, hidden.shape[-1:], tensors[f"gpfl/{name}.scale"], tensors[f"gpfl/{name}.shift"])

    return F.relu((1 + branch("gamma")) * features + branch("beta"))


def _with_conditions(client: Client) -> Tensors:
    """The weights, class embeddings, the conditional network (the same for all), and conditions of zero."""
    weight = client.task.weights[_head_weight(client)]
    classes, width = weight.shape
    zeros, ones = weight.new_zeros(width), weight.new_ones(width)
    extra: Tensors = {GLOBAL: zeros, PERSONAL: zeros}
    with seeded(client.moment.seed, "gpfl"):
        extra[EMBEDDING] = torch.randn(classes, width, dtype=weight.dtype)
        for name in ("gamma", "beta"):
            linear = nn.Linear(width, width, dtype=weight.dtype)
            extra |= {f"gpfl/{name}.{part}": tensor.detach() for part, tensor in linear.named_parameters()}
            extra |= {f"gpfl/{name}.scale": ones, f"gpfl/{name}.shift": zeros}
    return client.task.weights | extra


def _head_weight(client: Client) -> str:
    return next(n for n in client.task.network.groups["head"] if client.task.weights[n].ndim == 2)


def _renew_conditions(tensors: Tensors, client: Client) -> Tensors:
    """Conditions of the next round: the mean class embedding, and that weighted by the client's classes."""
    embedding = tensors[EMBEDDING]
    counts = torch.bincount(client.train.targets, minlength=len(embedding)).to(embedding.dtype)
    return tensors | {GLOBAL: embedding.mean(0), PERSONAL: counts / counts.sum() @ embedding}


def _predict(tensors: Tensors, inputs: Tensor, client: Client) -> Tensor:
    """The head under the personal condition."""
    weights = PLAIN.weights(tensors, client.task.network)
    features = client.task.features(weights, inputs)
    return client.task.head_outputs(weights, condition(tensors, features, tensors[PERSONAL]))
