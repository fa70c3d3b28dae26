"""What do the disputed methods compute, equation by equation? Plain torch, written before reading the engine.

It shares no code with the engine, nor with the other oracles. Sources: for FLAYER its paper (eq. 2 to 9 and
Algorithm 1); for LG-FedAvg "head shared and averaged by samples, body kept, both trained together from common weights";
for Per-FedAvg, Fallah et al. 2020, whose Hessian-free form puts a difference of two gradients in the place of the
Hessian times a vector; for FedAdam, Reddi et al. 2021, Algorithm 2 with v_{-1} = tau^2; for SCAFFOLD, Karimireddy et
al. 2020, option II, for the objective sum_k p_k f_k with p_k = n_k / n in the place of p_k = 1 / N. Where a paper
leaves a choice, it is said where it is made.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

Tensors: TypeAlias = dict[str, Tensor]
Samples: TypeAlias = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Federation:
    """Clients with the batches they train on (all epochs of a round, in order), and who takes part in which round."""

    network: nn.Module
    layers: Sequence[Sequence[str]]  # the parameters of layer 1 to L
    initial: Tensors
    sizes: Sequence[int]  # n_k
    rounds: Sequence[Sequence[int]]
    batches: Callable[[int, int], list[Samples]]  # of a round and a client
    local: Sequence[Samples]  # what a client measures its accuracy on: FLAYER's D_k

    @property
    def everyone(self) -> range:
        return range(len(self.sizes))

    def head(self, count: int) -> set[str]:
        return {name for layer in self.layers[len(self.layers) - count :] for name in layer}


@dataclass(frozen=True)
class Round:
    """What a round left behind: the model each client begins it with, then the server's state and each client's own."""

    begun: dict[int, Tensors]
    server: Tensors
    own: dict[int, Tensors] = field(default_factory=dict)


def copied(tensors: Mapping[str, Tensor]) -> Tensors:
    return {name: value.clone() for name, value in tensors.items()}


def gradient(federation: Federation, model: Tensors, batch: Samples) -> Tensors:
    """The gradient of the parameters. Running statistics in `model` move, as they do in training."""
    names = [name for layer in federation.layers for name in layer]
    leaves = {name: model[name].clone().requires_grad_() for name in names}
    federation.network.train()
    loss = cross_entropy(functional_call(federation.network, {**model, **leaves}, (batch[0],)), batch[1])
    return dict(zip(names, torch.autograd.grad(loss, [leaves[name] for name in names]), strict=True))


@torch.no_grad()
def logits(federation: Federation, model: Tensors, inputs: Tensor) -> Tensor:
    federation.network.eval()
    answers: Tensor = functional_call(federation.network, model, (inputs,))
    return answers


def accuracy(federation: Federation, model: Tensors, samples: Samples) -> float:
    return (logits(federation, model, samples[0]).argmax(1) == samples[1]).double().mean().item()


def shares(sizes: Sequence[int], clients: Iterable[int]) -> dict[int, float]:
    """n_k over the sum of n_j of those who take part."""
    chosen = list(clients)
    return {client: sizes[client] / sum(sizes[other] for other in chosen) for client in chosen}


def mean(models: Mapping[int, Tensors], share: Mapping[int, float], name: str) -> Tensor:
    return torch.stack([share[client] * model[name] for client, model in models.items()]).sum(0)


def trained(
    federation: Federation, start: Tensors, batches: list[Samples], rate: float, factors: Mapping[str, float]
) -> Tensors:
    """SGD; `factors` multiply the rate of a parameter."""
    model = copied(start)
    for batch in batches:
        for name, slope in gradient(federation, model, batch).items():
            model[name] = model[name] - rate * factors.get(name, 1.0) * slope
    return model


# FLAYER


def initialised(received: Tensors, own: Tensors, weight: float) -> Tensors:
    """Equation 2. Layers 1 to L - s are the server's, the head is A of the client's own and 1 - A of the server's."""
    model = copied(received)
    for name, value in own.items():
        model[name] = weight * value + (1 - weight) * received[name]
    return model


def rate_factors(federation: Federation, model: Tensors, batch: Samples) -> dict[str, float]:
    """Equation 4. t counts rounds everywhere in the paper: one rate per layer and round, from the round's first batch.

    A layer's gradient is that of its weight and bias together. 1e-8 keeps a gradient of zero from dividing by zero.
    """
    slopes = gradient(federation, copied(model), batch)
    factors = {}
    for position, layer in enumerate(federation.layers, 1):
        norm = torch.cat([slopes[name].flatten() for name in layer]).norm()
        factor = 1 + torch.log(1 + 1 / (norm + 1e-8)) * position / len(federation.layers)
        factors.update(dict.fromkeys(layer, factor.item()))
    return factors


def top(change: Tensor, fraction: Fraction) -> Tensor:
    """Equation 7: the entries that changed most, first come first served where they tie, and never none of them."""
    kept = max(1, ceil(fraction * change.numel()))
    chosen = torch.zeros(change.numel(), dtype=torch.bool)
    chosen[change.flatten().argsort(descending=True, stable=True)[:kept]] = True
    return chosen.view_as(change)


def masks(federation: Federation, before: Tensors, after: Tensors, *, joint: bool) -> Tensors:
    """Equations 5 to 8: which entries of each layer are sent, ranked tensor by tensor or in the layer jointly."""
    chosen = {}
    for position, layer in enumerate(federation.layers, 1):
        fraction = min(max(Fraction(position, len(federation.layers)), Fraction(1, 10)), Fraction(1))
        changes = {name: (after[name] - before[name]).abs() for name in layer}
        if joint:
            together = top(torch.cat([change.flatten() for change in changes.values()]), fraction)
            parts = torch.split(together, [change.numel() for change in changes.values()])
            chosen.update({name: part.view_as(changes[name]) for name, part in zip(layer, parts, strict=True)})
        else:
            chosen.update({name: top(change, fraction) for name, change in changes.items()})
    return chosen


def averaged(
    after: Mapping[int, Tensors], sent: Mapping[int, Tensors], share: Mapping[int, float], old: Tensors, *, dilute: bool
) -> Tensors:
    """Algorithm 1, line 12: over the clients who sent an entry, or literally, with zeros for what was not sent.

    An entry that nobody sent keeps its value, or is literally a sum of zeros. Buffers are no parameters: not masked.
    """
    server = copied(old)
    for name, value in old.items():
        if value.is_floating_point():
            total, weight = torch.zeros_like(value), torch.zeros_like(value)
            for client, model in after.items():
                mask = sent[client].get(name, torch.ones_like(value)).to(value.dtype)
                total += share[client] * mask * model[name]
                weight += share[client] * mask
            server[name] = total if dilute else torch.where(weight > 0, total / weight, value)
    return server


def flayer(
    federation: Federation,
    *,
    rate: float,
    head: int = 1,
    blend: bool = True,
    adaptive: bool = True,
    masked: bool = True,
    joint: bool = False,
    dilute: bool = False,
) -> list[Round]:
    """Algorithm 1. Without a part: A = 0 (everything received), one rate for all layers, every entry sent.

    The own head of equation 2 is the trained head before masking, of the last round the client took part in; before
    any, it is the initial one with A = 0. A is the accuracy of the trained model. Every client begins a round with the
    model of equation 2, also one that does not take part: this is the model Algorithm 1 returns.
    """
    server, history = copied(federation.initial), []
    own = {client: {name: server[name] for name in federation.head(head)} for client in federation.everyone}
    weight = dict.fromkeys(own, 0.0)
    for number, chosen in enumerate(federation.rounds):
        begun = {client: initialised(server, own[client], weight[client]) for client in own}
        after, sent = {}, {}
        for client in chosen:
            batches = federation.batches(number, client)
            factors = rate_factors(federation, begun[client], batches[0]) if adaptive else {}
            after[client] = trained(federation, begun[client], batches, rate, factors)
            sent[client] = masks(federation, begun[client], after[client], joint=joint) if masked else {}
            own[client] = {name: after[client][name] for name in own[client]}
            if blend:
                weight[client] = accuracy(federation, after[client], federation.local[client])
        server = averaged(after, sent, shares(federation.sizes, chosen), server, dilute=dilute)
        history.append(Round(begun, server, dict(own)))
    return history


# The others


def lg_fedavg(federation: Federation, *, rate: float, head: int = 1) -> list[Round]:
    """The head is the server's, the body a client's own; both are trained together, from weights common to all."""
    top_part = federation.head(head)
    server = {name: federation.initial[name] for name in top_part}
    body = {name: value for name, value in federation.initial.items() if name not in top_part}
    own = {client: copied(body) for client in federation.everyone}
    history = []
    for number, chosen in enumerate(federation.rounds):
        begun = {client: {**copied(own[client]), **copied(server)} for client in own}
        after = {at: trained(federation, begun[at], federation.batches(number, at), rate, {}) for at in chosen}
        for client, model in after.items():
            own[client] = {name: model[name] for name in body}
        share = shares(federation.sizes, chosen)
        server = {name: mean(after, share, name) for name in top_part}
        history.append(Round(begun, server, dict(own)))
    return history


def hessian_free(
    federation: Federation, model: Tensors, batches: Sequence[Samples], inner: float, delta: float
) -> Tensors:
    """(I - alpha H(w; D'')) g: g the gradient on D' at w - alpha grad(w; D), and H g a difference of gradients."""
    first, second, third = batches
    slopes = gradient(federation, model, first)
    ahead = {name: model[name] - inner * slopes[name] for name in slopes}
    meta = gradient(federation, ahead, second)
    plus = gradient(federation, {name: model[name] + delta * meta[name] for name in meta}, third)
    minus = gradient(federation, {name: model[name] - delta * meta[name] for name in meta}, third)
    return {name: meta[name] - inner * (plus[name] - minus[name]) / (2 * delta) for name in meta}


def per_fedavg(federation: Federation, *, inner: float, rate: float, delta: float) -> list[Round]:
    """Fallah et al.: three batches D, D', D'' for a step; one or two that are left over are not used."""
    server, history = copied(federation.initial), []
    for number, chosen in enumerate(federation.rounds):
        after = {}
        for client in chosen:
            model, batches = copied(server), federation.batches(number, client)
            for at in range(0, len(batches) - 2, 3):
                slopes = hessian_free(federation, model, batches[at : at + 3], inner, delta)
                model = {name: model[name] - rate * slopes[name] for name in model}
            after[client] = model
        begun = dict.fromkeys(federation.everyone, server)
        server = {name: mean(after, shares(federation.sizes, chosen), name) for name in server}
        history.append(Round(begun, server))
    return history


def fedadam(
    federation: Federation, *, rate: float, server_rate: float, beta1: float, beta2: float, tau: float
) -> list[Round]:
    """Reddi et al., Algorithm 2: m_{-1} = 0, v_{-1} = tau^2, no correction of bias; clients weigh by their samples."""
    server, history = copied(federation.initial), []
    momentum = {name: torch.zeros_like(value) for name, value in server.items()}
    variance = {name: torch.full_like(value, tau**2) for name, value in server.items()}
    for number, chosen in enumerate(federation.rounds):
        begun = dict.fromkeys(federation.everyone, server)
        after = {client: trained(federation, server, federation.batches(number, client), rate, {}) for client in chosen}
        share = shares(federation.sizes, chosen)
        step = {name: mean(after, share, name) - server[name] for name in server}
        momentum = {name: beta1 * momentum[name] + (1 - beta1) * step[name] for name in server}
        variance = {name: beta2 * variance[name] + (1 - beta2) * step[name] ** 2 for name in server}
        server = {name: server[name] + server_rate * momentum[name] / (variance[name].sqrt() + tau) for name in server}
        history.append(Round(begun, server))
    return history


def scaffold(federation: Federation, *, rate: float, server_rate: float = 1.0) -> list[Round]:
    """Option II for sum_k p_k f_k, p_k = n_k / n: x moves by the shares of those who take part; c stays sum_k p_k c_k.

    `own` holds the c_k.
    """
    server, history = copied(federation.initial), []
    zeros = {name: torch.zeros_like(value) for name, value in server.items()}
    control, controls = zeros, dict.fromkeys(federation.everyone, zeros)
    for number, chosen in enumerate(federation.rounds):
        after, changed = {}, dict(controls)
        for client in chosen:
            model, batches = copied(server), federation.batches(number, client)
            for batch in batches:
                slopes = gradient(federation, model, batch)
                model = {
                    name: model[name] - rate * (slopes[name] - controls[client][name] + control[name]) for name in model
                }
            after[client] = model
            changed[client] = {
                name: controls[client][name] - control[name] + (server[name] - model[name]) / (len(batches) * rate)
                for name in model
            }
        begun = dict.fromkeys(controls, server)
        share, part = shares(federation.sizes, chosen), shares(federation.sizes, controls)
        server = {name: value + server_rate * (mean(after, share, name) - value) for name, value in server.items()}
        control, controls = {name: mean(changed, part, name) for name in control}, changed
        history.append(Round(begun, server, controls))
    return history
