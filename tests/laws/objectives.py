"""Methods with an objective or a server of their own, written down in plain torch from their papers.

Data, batches, participants and random draws are those of `readings.py` and the package; the arithmetic shares nothing
with it. Where a paper leaves a choice open, the loop holds the reading that `docs/algorithms.md` names.

One file, since the loops are made of the same small steps.
"""

import math
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from laws.readings import BATCH, DATA, RATE, SEED, State, World, copied, of, samples
from partita.randomness import generator, seeded
from toys import small_network

NETWORK = small_network(False)
CLIENTS = range(len(DATA))
CLASSES, WIDTH = 3, 5


def answers(weights: State, inputs: Tensor) -> Tensor:
    outputs: Tensor = functional_call(NETWORK, weights, (inputs,))
    return outputs


def features(weights: State, inputs: Tensor) -> Tensor:
    """What the head sees."""
    return F.relu(linear(weights, "layer2", F.relu(linear(weights, "layer1", inputs))))


def linear(weights: State, name: str, inputs: Tensor) -> Tensor:
    return F.linear(inputs, weights[f"{name}.weight"], weights[f"{name}.bias"])


def leaves(state: State) -> State:
    return {name: tensor.detach().clone().requires_grad_() for name, tensor in state.items()}


def slopes(loss: Tensor, state: State) -> State:
    found = torch.autograd.grad(loss, list(state.values()))
    return dict(zip(state, found, strict=True))


def moved(state: State, slope: State, rate: float = RATE) -> State:
    return {name: (tensor - rate * slope[name]).detach() for name, tensor in state.items()}


def total(terms: Iterable[Tensor]) -> Tensor:
    return torch.stack(list(terms)).sum(0)


def below(prefix: str, state: State) -> State:
    return {prefix + name: tensor for name, tensor in state.items()}


def endless(world: World, client: int, number: int) -> Iterator[tuple[Tensor, Tensor]]:
    epoch = 0
    while True:
        yield from world.batches(client, number, epoch)
        epoch += 1


def apfl(world: World, *, adaptive: bool) -> None:
    """Deng et al.: w by f(w); v and alpha by f(alpha v + (1 - alpha) w), all gradients at the same point."""
    initial = dict(world.server)
    for number in range(world.rounds):
        sent = {}
        for client in world.participants(number):
            w, kept = dict(world.server), world.own.get(client)
            v = {n: kept[f"personal/{n}"] for n in w} if kept else initial
            alpha = kept["apfl/alpha"] if kept else torch.tensor(0.3, dtype=torch.float64)
            for inputs, targets in world.batches(client, number):
                own, shared = leaves(v | {"alpha": alpha}), leaves(w)
                mixed = {n: own["alpha"] * own[n] + (1 - own["alpha"]) * w[n] for n in w}
                slope = slopes(F.cross_entropy(answers(mixed, inputs), targets), own)
                v = moved(v, slope)
                w = moved(w, slopes(F.cross_entropy(answers(shared, inputs), targets), shared))
                alpha = (alpha - (0.5 * RATE if adaptive else 0) * slope["alpha"]).clamp(0, 1)
            world.own[client], sent[client] = below("personal/", v) | {"apfl/alpha": alpha}, w
        world.server = world.mean(sent, samples)


def server_update(world: World) -> None:
    """Oh et al., section 4: after each aggregation an epoch over the server's sample, on the body alone."""
    inputs = torch.cat([DATA[client].train.inputs for client in CLIENTS])
    targets = torch.cat([DATA[client].train.targets for client in CLIENTS])
    held = torch.randperm(len(targets), generator=generator(SEED, "server data"))[: len(targets) // 2]
    for number in range(world.rounds):
        modules = {k: world.sgd(world.module(world.server), k, number) for k in world.participants(number)}
        world.server = world.mean({k: copied(module.state_dict()) for k, module in modules.items()}, samples)
        order = torch.randperm(len(held), generator=generator(SEED, "train", number, -1, 0))
        for rows in torch.split(held[order], BATCH):
            body = leaves(of(world.server, "layer"))
            loss = F.cross_entropy(answers({**world.server, **body}, inputs[rows]), targets[rows])
            world.server |= moved(body, slopes(loss, body))


def pfedme(world: World, *, strength: float, inner_steps: int, inner_rate: float, steps: int, beta: float) -> None:
    """Dinh et al., Algorithm 1: theta near w for each batch, w towards theta; the server goes beta of the way."""
    for number in range(world.rounds):
        sent = {}
        for client in world.participants(number):
            w = dict(world.server)
            for _, (inputs, targets) in zip(range(steps), endless(world, client, number), strict=False):
                theta = w
                for _ in range(inner_steps):
                    point = leaves(theta)
                    slope = slopes(F.cross_entropy(answers(point, inputs), targets), point)
                    theta = {n: (theta[n] - inner_rate * (slope[n] + strength * (theta[n] - w[n]))) for n in w}
                w = {n: w[n] - RATE * strength * (w[n] - theta[n]) for n in w}
            sent[client] = w
        mean = world.mean(sent, samples)
        world.server = {n: (1 - beta) * tensor + beta * mean[n] for n, tensor in world.server.items()}


def fedamp(world: World, *, strength: float, alpha: float, sigma: float) -> None:
    """Huang et al.: u_i from all networks by their distance; client i from its own w_i, near u_i."""
    initial = dict(world.server)
    models = {client: dict(initial) for client in CLIENTS}
    there = set[int]()
    for number in range(world.rounds):
        centres = {client: attended(models, client, alpha, sigma) for client in CLIENTS}
        for client in world.participants(number):
            w = models[client]
            for inputs, targets in world.batches(client, number):
                point = leaves(w)
                far = sum((point[n] - centres[client][n]).square().sum() for n in point)
                slope = slopes(F.cross_entropy(answers(point, inputs), targets) + strength / (2 * alpha) * far, point)
                w = moved(w, slope)
            models[client] = w
            there.add(client)
    world.own = {client: models[client] for client in there}
    kept = {f"server/client/{k}/{n}": t for k, model in world.own.items() for n, t in model.items()}
    world.server = below("server/initial/", initial) | {"server/population": torch.tensor(len(DATA))} | kept


def attended(models: dict[int, State], client: int, alpha: float, sigma: float) -> State:
    """u_i: xi_ij = alpha A'(|w_i - w_j|^2) with A'(x) = exp(-x / sigma) / sigma; the own weight is what is left."""
    own = models[client]
    xi = {
        other: alpha * math.exp(-sum(float((own[n] - w[n]).square().sum()) for n in own) / sigma) / sigma
        for other, w in models.items()
        if other != client
    }
    xi[client] = 1 - sum(xi.values())
    return {n: total(xi[k] * models[k][n] for k in models) for n in own}


def fedala(world: World, *, fraction: float, mix_rate: float, first_epochs: int) -> None:
    """Zhang et al.: own + (received - own) W in the head, W learned on a slice; then all weights are trained."""
    initial = dict(world.server)
    for number in range(world.rounds):
        sent = {}
        for client in world.participants(number):
            received, kept = dict(world.server), world.own.get(client)
            own = of(kept, "head.") if kept else of(initial, "head.")
            mix = {n: kept[f"mix/{n}"] if kept else torch.ones_like(t) for n, t in own.items()}
            started = float(kept["fedala/started"]) if kept else 0.0
            if any(not torch.equal(own[n], received[n]) for n in own):
                for epoch in range(1 if started else first_epochs):
                    for inputs, targets in sliced(client, number, epoch, fraction):
                        point = leaves({n: own[n] + (received[n] - own[n]) * mix[n] for n in own})
                        slope = slopes(F.cross_entropy(answers({**received, **point}, inputs), targets), point)
                        mix = {
                            n: (mix[n] - mix_rate * slope[n] * (received[n] - own[n])).clamp(0, 1) for n in own
                        }  # fmt: skip
                started = 1.0
            begin = {**received, **{n: own[n] + (received[n] - own[n]) * mix[n] for n in own}}
            trained = dict(world.sgd(world.module(begin), client, number).state_dict())
            sent[client] = of(trained, "layer", "head.")
            world.own[client] = of(trained, "head.") | below("mix/", mix) | {"fedala/started": torch.tensor(started)}
        world.server = world.mean(sent, samples)


def sliced(client: int, number: int, epoch: int, fraction: float) -> Iterator[tuple[Tensor, Tensor]]:
    """Batches of a contiguous part of the training data."""
    train = DATA[client].train
    size = int(fraction * len(train))
    begin = int(torch.randint(len(train) - size + 1, (), generator=generator(SEED, "fedala", number, client)))
    order = begin + torch.randperm(size, generator=generator(SEED, "train", number, client, epoch))
    for rows in torch.split(order, BATCH):
        yield train.inputs[rows], train.targets[rows]


def apple(world: World, *, mu: float, relation_rate: float, momentum: float) -> None:
    """Luo and Wu: the sum of p_j c_j; the own core and p learn, p near p0 by mu lambda(r), which fades by a cosine."""
    initial = dict(world.server)
    sizes = torch.tensor([samples(client) for client in CLIENTS], dtype=torch.float64)
    prior = sizes / sizes.sum()
    cores = {client: dict(initial) for client in CLIENTS}
    relations: dict[int, Tensor] = {}
    for number in range(world.rounds):
        fade = (1 + math.cos(math.pi * number / world.rounds)) / 2
        new: dict[int, State] = {}
        for client in world.participants(number):
            core, p = cores[client], relations.get(client, prior)
            rates = dict.fromkeys(core, RATE) | {"p": relation_rate * RATE}
            moving = {n: torch.zeros_like(t) for n, t in (core | {"p": p}).items()}
            for inputs, targets in world.batches(client, number):
                point = leaves(core | {"p": p})
                mixed = {
                    n: total(point["p"][k] * (point[n] if k == client else cores[k][n]) for k in CLIENTS) for n in core
                }
                near = mu * fade * (point["p"] - prior).square().sum()
                slope = slopes(F.cross_entropy(answers(mixed, inputs), targets) + near, point)
                moving = {n: momentum * moving[n] + slope[n] for n in slope}
                after = {n: (core | {"p": p})[n] - rates[n] * moving[n] for n in slope}
                core, p = {n: after[n] for n in core}, after["p"]
            new[client], relations[client] = core, p
        cores |= new
    world.own = {client: cores[client] | {"relations/all": p} for client, p in relations.items()}
    kept = {f"server/core/{k}/{n}": t for k in relations for n, t in cores[k].items()}
    world.server = below("server/initial/", initial) | {"server/prior": prior} | kept


def gpfl(world: World, *, strength: float, decay: float) -> None:
    """Zhang et al.: personal classification, guidance by class embeddings, and nearness to the own class's one."""
    with seeded(SEED, "gpfl"):
        extra = {"gpfl/embedding": torch.randn(CLASSES, WIDTH, dtype=torch.float64)}
        for name in ("gamma", "beta"):
            layer = nn.Linear(WIDTH, WIDTH, dtype=torch.float64)
            extra |= {f"gpfl/{name}.weight": layer.weight.detach(), f"gpfl/{name}.bias": layer.bias.detach()}
            extra |= {
                f"gpfl/{name}.scale": torch.ones(WIDTH).double(),
                f"gpfl/{name}.shift": torch.zeros(WIDTH).double(),
            }
    head = of(world.server, "head.")
    world.server = of(world.server, "layer") | extra
    zero = torch.zeros(WIDTH, dtype=torch.float64)
    for number in range(world.rounds):
        sent = {}
        for client in world.participants(number):
            kept = world.own.get(client, head | {"condition/global": zero, "condition/personal": zero})
            weights = world.server | of(kept, "head.")
            for inputs, targets in world.batches(client, number):
                point = leaves(weights)
                seen = features(point, inputs)
                personal = conditioned(point, seen, kept["condition/personal"])
                general = conditioned(point, seen, kept["condition/global"])
                embedding = point["gpfl/embedding"]
                cosine = torch.stack([F.cosine_similarity(general, each[None]) for each in embedding], dim=1)
                far = (general - embedding.detach()[targets]).square().sum().sqrt()
                loss = F.cross_entropy(linear(point, "head", personal), targets)
                slope = slopes(loss + F.cross_entropy(cosine, targets) + strength * far, point)
                weights = {
                    n: t - RATE * (slope[n] + (decay * t if n.startswith("gpfl/") else 0)) for n, t in weights.items()
                }
            shares = torch.bincount(DATA[client].train.targets, minlength=CLASSES).double() / len(DATA[client].train)
            embedding = weights["gpfl/embedding"]
            world.own[client] = of(weights, "head.") | {
                "condition/global": embedding.mean(0),
                "condition/personal": (shares[:, None] * embedding).sum(0),
            }
            sent[client] = of(weights, "layer", "gpfl/")
        world.server = world.mean(sent, samples)


def conditioned(weights: State, seen: Tensor, condition: Tensor) -> Tensor:
    """ReLU((1 + gamma) f + beta); each branch is a linear layer, a ReLU and a layer norm of the condition."""
    made = {}
    for name in ("gamma", "beta"):
        hidden = F.relu(linear(weights, f"gpfl/{name}", condition))
        centred = hidden - hidden.mean()
        made[name] = (
            centred / (centred.square().mean() + 1e-5).sqrt() * weights[f"gpfl/{name}.scale"]
            + weights[f"gpfl/{name}.shift"]
        )
    return F.relu((1 + made["gamma"]) * seen + made["beta"])


def fedcp(world: World, *, strength: float) -> None:
    """Zhang et al., without the noise of the policy: each feature is divided between the own and the received head."""
    head, body = of(world.server, "head."), of(world.server, "layer")
    with seeded(SEED, "fedcp"):
        layer = nn.Linear(WIDTH, 2 * WIDTH, dtype=torch.float64)
    ones = torch.ones(2 * WIDTH, dtype=torch.float64)
    policy = {"policy/weight": layer.weight.detach(), "policy/bias": layer.bias.detach()}
    world.server = body | below("global/", head) | policy | {"policy/scale": ones, "policy/shift": 0 * ones}
    for number in range(world.rounds):
        sent = {}
        for client in world.participants(number):
            received, own = dict(world.server), world.own.get(client, head)
            context = own["head.weight"].sum(0)
            context = context / context.norm()
            weights = of(received, "layer", "policy/") | own
            for inputs, targets in world.batches(client, number):
                point = leaves(weights)
                seen = features(point, inputs)
                hidden = F.linear(seen * context, point["policy/weight"], point["policy/bias"])
                hidden = F.relu(F.layer_norm(hidden, (2 * WIDTH,), point["policy/scale"], point["policy/shift"]))
                share = torch.sigmoid(hidden[:, :WIDTH] - hidden[:, WIDTH:])
                outputs = linear(point, "head", share * seen) + linear(received, "global/head", (1 - share) * seen)
                apart = discrepancy(seen, features(received, inputs))
                slope = slopes(F.cross_entropy(outputs, targets) + strength * apart, point)
                weights = moved(weights, slope)
            world.own[client] = of(weights, "head.")
            halves = {f"global/{n}": (t + received[f"global/{n}"]) / 2 for n, t in world.own[client].items()}
            sent[client] = of(weights, "layer", "policy/") | halves
        world.server = world.mean(sent, samples)


def discrepancy(one: Tensor, other: Tensor) -> Tensor:
    """MMD with Gaussian kernels of four widths."""

    def kernel(a: Tensor, b: Tensor) -> Tensor:
        squared = (a[:, None] - b[None]).square().sum(2)
        return total(torch.exp(-squared / (2 * width)) for width in (10, 15, 20, 50))

    return (kernel(one, one) + kernel(other, other) - 2 * kernel(one, other)).mean()
