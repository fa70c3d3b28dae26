"""FedCP. Zhang et al., 2023, https://arxiv.org/abs/2307.01217"""

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
from ..tensors import Tensors, prefixed, under

BANDWIDTHS = (10.0, 15.0, 20.0, 50.0)


@configurable
def fedcp(
    *, strength: Strength = 5.0, noise_in_use: bool = True, epochs: Length = 1, optimizer: SGD = SGD(0.005)
) -> Algorithm:
    """Split every feature, by a learned policy, between a personal head and the received one.

    The authors draw the policy's noise also when the model is used; `noise_in_use=False` makes it deterministic.
    """

    def objective(tensors: Tensors, batch: Samples, client: Client) -> Tensor:
        """Classification by both heads, and features that stay near those of the received body."""
        weights = PLAIN.weights(tensors, client.task.network)
        features = client.task.features(weights, batch.inputs)
        loss = client.task.loss(_answer(tensors, features, client, noise=True), batch.targets)
        if strength:
            with torch.no_grad():
                # Copies, for the received body's statistics stay as they are.
                received = {n: client.received[n].clone() if n in client.received else t for n, t in weights.items()}
                target = client.task.features(received, batch.inputs)
            loss = loss + strength * discrepancy(features, target)
        return loss

    def predict(tensors: Tensors, inputs: Tensor, client: Client) -> Tensor:
        features = client.task.features(PLAIN.weights(tensors, client.task.network), inputs)
        return _answer(tensors, features, client, noise=noise_in_use)

    return Algorithm(
        shared=BODY | below("global/") | below("policy/"),
        personal=HEAD,
        keep=HEAD,
        expand=_with_policy,
        start=_with_context,
        phases=(Phase(NETWORK | below("policy/"), optimizer, epochs=epochs, objective=objective),),
        upload=_half_of_both_heads,
        predict=predict,
    )


def policy(tensors: Tensors, features: Tensor, *, noise: bool) -> Tensor:
    """The share of each feature that goes to the personal head; the rest goes to the received one."""
    context = F.normalize(tensors["context/head"], dim=0)
    hidden = F.linear(features * context, tensors["policy/weight"], tensors["policy/bias"])
    hidden = F.layer_norm(hidden, hidden.shape[-1:], tensors["policy/scale"], tensors["policy/shift"])
    pairs = F.relu(hidden).reshape(features.shape[0], 2, -1)
    return (F.gumbel_softmax(pairs, tau=1, dim=1) if noise else pairs.softmax(1))[:, 0]


def discrepancy(one: Tensor, other: Tensor) -> Tensor:
    """Maximum mean discrepancy with Gaussian kernels."""

    def kernel(a: Tensor, b: Tensor) -> Tensor:
        squared = (a.square().sum(1)[:, None] + b.square().sum(1)[None] - 2 * a @ b.T).clamp(min=0)
        return torch.stack([torch.exp(-squared / (2 * width)) for width in BANDWIDTHS]).sum(0)

    return (kernel(one, one) + kernel(other, other) - 2 * kernel(one, other)).mean()


def _answer(tensors: Tensors, features: Tensor, client: Client, *, noise: bool) -> Tensor:
    weights = PLAIN.weights(tensors, client.task.network)
    share = policy(tensors, features, noise=noise)
    received_head = weights | under("global/", tensors)
    return client.task.head_outputs(weights, share * features) + client.task.head_outputs(
        received_head, (1 - share) * features
    )


def _with_policy(client: Client) -> Tensors:
    """The weights, a head to share, and the policy network (the same for all)."""
    weights = client.task.weights
    head = {name: weights[name] for name in client.task.network.groups["head"]}
    weight = next(tensor for tensor in head.values() if tensor.ndim == 2)
    width = weight.shape[1]
    with seeded(client.moment.seed, "fedcp"):
        linear = nn.Linear(width, 2 * width, dtype=weight.dtype)
    learned = {f"policy/{name}": tensor.detach() for name, tensor in linear.named_parameters()}
    learned |= {"policy/scale": weight.new_ones(2 * width), "policy/shift": weight.new_zeros(2 * width)}
    return weights | prefixed("global/", head) | learned


def _with_context(tensors: Tensors, client: Client) -> Tensors:
    """What was received, and as context the sum over classes of the personal head's weight."""
    head = next(t for n, t in tensors.items() if n in client.task.network.groups["head"] and t.ndim == 2)
    return tensors | client.received | {"context/head": head.sum(0)}


def _half_of_both_heads(before: Tensors, after: Tensors, client: Client) -> tuple[Tensors, Tensors | None]:
    """Body and policy, and half of each head."""
    return after | {f"global/{n}": (after[n] + t) / 2 for n, t in under("global/", before).items()}, None
