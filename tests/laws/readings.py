"""How else can a paper be read? Each reading of a method written down in plain torch, from the papers alone.

Only the raw data, the order of batches and who takes part come from the package; the arithmetic shares nothing with it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from partita.experiment.samplers import Fraction
from partita.randomness import Moment, generator
from toys import small_federation, small_network

SEED, PARTICIPATION, BATCH, ROUNDS, RATE = 5, 0.5, 3, 3, 0.1
DATA = small_federation((12, 7, 20, 9, 11, 15), seed=2)
UNITS = (("layer1.", "norm1."), ("layer2.",), ("head.",))
"""The layers of the small network; a norm counts with the layer before it."""

State = dict[str, Tensor]


@dataclass
class World:
    """The server's state dict, what each client keeps, and the test losses of all clients after each round."""

    norm: bool = False
    rounds: int = ROUNDS
    server: State = field(default_factory=dict)
    own: dict[int, State] = field(default_factory=dict)
    losses: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.server = copied(small_network(self.norm).state_dict())

    def module(self, *states: State) -> nn.Module:
        """The network with these weights, the later ones in place of the earlier."""
        module = small_network(self.norm)
        for state in states:
            module.load_state_dict(state, strict=False)
        return module

    def participants(self, number: int) -> list[int]:
        return Fraction(PARTICIPATION)(len(DATA), Moment(number, self.rounds, SEED))

    def batches(self, client: int, number: int, epoch: int = 0) -> Iterator[tuple[Tensor, Tensor]]:
        train = DATA[client].train
        order = torch.randperm(len(train), generator=generator(SEED, "train", number, client, epoch))
        for rows in (order[at : at + BATCH] for at in range(0, len(order), BATCH)):
            if len(rows) > 1 or not self.norm:
                yield train.inputs[rows], train.targets[rows]

    def sgd(self, module: nn.Module, client: int, number: int, rates: dict[str, float] | None = None) -> nn.Module:
        """One epoch of plain SGD."""
        module.train()
        for inputs, targets in self.batches(client, number):
            gradients = gradient(module, inputs, targets)
            with torch.no_grad():
                for name, parameter in module.named_parameters():
                    parameter.sub_((rates[name] if rates else RATE) * gradients[name])
        return module

    def mean(self, states: dict[int, State], weights: Callable[[int], float]) -> State:
        """The weighted mean of the clients' values."""
        total = sum(map(weights, states))
        names = next(iter(states.values()))
        return {
            name: sum((weights(k) / total * state[name] for k, state in states.items()), start=torch.zeros(()).double())
            for name in names
        }

    def measure(self, model: Callable[[int], nn.Module]) -> None:
        """The test loss of every client, whether it took part or not."""
        self.losses.append([])
        for client in range(len(DATA)):
            test = DATA[client].test
            with torch.no_grad():
                loss = F.cross_entropy(model(client).eval()(test.inputs), test.targets)
            self.losses[-1].append(float(loss))


def samples(client: int) -> float:
    return float(len(DATA[client].train))


def uniform(client: int) -> float:
    return 1.0


def copied(state: State) -> State:
    """Integer counters of batches are nobody's weights."""
    return {name: tensor.clone() for name, tensor in state.items() if tensor.is_floating_point()}


def of(state: State, *beginnings: str) -> State:
    return {name: tensor.clone() for name, tensor in copied(state).items() if name.startswith(beginnings)}


def gradient(module: nn.Module, inputs: Tensor, targets: Tensor) -> State:
    module.zero_grad()
    torch.autograd.backward(F.cross_entropy(module(inputs), targets))
    return {name: p.grad.clone() for name, p in module.named_parameters() if p.grad is not None}


def lg_fedavg(world: World, shared: Sequence[str] = ("head.",), weights: Callable[[int], float] = samples) -> None:
    """Liang et al.: the top is shared and averaged, what is below stays on the client; both are trained together."""
    below = tuple(each for unit in UNITS for each in unit if each not in shared)
    initial = dict(world.server)
    world.server = of(initial, *shared)
    world.own = {client: of(initial, *below) for client in range(len(DATA))}
    for number in range(world.rounds):
        sent = {}
        for client in world.participants(number):
            module = world.sgd(world.module(initial, world.server, world.own[client]), client, number)
            world.own[client] = of(module.state_dict(), *below)
            sent[client] = of(module.state_dict(), *shared)
        world.server |= world.mean(sent, weights)
        world.measure(lambda client: world.module(initial, world.own[client], world.server))


def flayer(
    world: World,
    *,
    s: int = 1,
    blend: bool = True,
    rates: bool = True,
    mask: bool = True,
    joint: bool = False,
    dilute: bool = False,
) -> None:
    """Chen et al., Algorithm 1 with equations 2 to 9; each of the three parts can be left out."""
    head = tuple(each for unit in UNITS[len(UNITS) - s :] for each in unit)

    def initialised(client: int) -> nn.Module:
        """Equation 2: the base is the server's; of each head layer A own + (1 - A) the server's; at first A = 0.

        A is the accuracy on held-out data of the model that the client trained when it last took part. A layer's
        running statistics are blended with its weights, so that A = 1 is FedPer and A = 0 FedAvg.
        """
        kept = world.own.get(client)
        if not blend or kept is None:
            return world.module(world.server)
        accuracy = float(kept["flayer/accuracy"])
        mixed = {
            name: accuracy * kept[name] + (1 - accuracy) * value for name, value in of(world.server, *head).items()
        }
        return world.module(world.server, mixed)

    for number in range(world.rounds):
        sent: dict[int, State] = {}
        masks: dict[int, State] = {}
        for client in world.participants(number):
            module = initialised(client)
            before = copied(module.state_dict())
            layer_rates = equation_4(module, *next(world.batches(client, number))) if rates else None
            module.load_state_dict(before, strict=False)  # the look at the first batch moved the running statistics
            world.sgd(module, client, number, layer_rates)
            after = copied(module.state_dict())
            sent[client], masks[client] = after, equations_5_to_8(module, before, after, joint) if mask else {}
            validation = DATA[client].validation
            with torch.no_grad():
                right = module.eval()(validation.inputs).argmax(1) == validation.targets
            accuracy = right.double().mean() if blend else torch.zeros(()).double()
            world.own[client] = of(after, *head) | {"flayer/accuracy": accuracy}
        world.server = masked_mean(world.server, sent, masks, dilute)
        world.measure(initialised)


def equation_4(module: nn.Module, inputs: Tensor, targets: Tensor) -> dict[str, float]:
    """eta (1 + ln(1 + 1 / |g_i|) i / L), with the gradient of all parameters of layer i on the round's first batch."""
    found: dict[str, float] = {}
    gradients = gradient(module.train(), inputs, targets)
    for i, beginnings in enumerate(UNITS, start=1):
        members = of(gradients, *beginnings)
        norm = math.sqrt(sum(float(each.pow(2).sum()) for each in members.values()))
        rate = RATE * (1 + math.log(1 + 1 / (norm + 1e-8)) * i / len(UNITS))
        found |= dict.fromkeys(members, rate)
    return found


def equations_5_to_8(module: nn.Module, before: State, after: State, joint: bool) -> State:
    """1 at the ceil(UP_i n) entries that training changed most since the client's initialised model."""
    masks: State = {}
    trained = {name for name, _ in module.named_parameters()}
    for i, beginnings in enumerate(UNITS, start=1):
        part = min(max(i / len(UNITS), 0.1), 1.0)
        changes = {n: (after[n] - before[n]).abs() for n in after if n in trained and n.startswith(beginnings)}
        groups = [list(changes)] if joint else [[name] for name in changes]
        for group in groups:
            ranked = sorted(
                (
                    (float(-value), place, at)
                    for place, n in enumerate(group)
                    for at, value in enumerate(changes[n].flatten())
                )
            )
            flat = [torch.zeros(changes[n].numel(), dtype=torch.float64) for n in group]
            for _, place, at in ranked[: max(1, math.ceil(part * len(ranked) - 1e-9))]:
                flat[place][at] = 1.0
            masks |= {n: values.view_as(changes[n]) for n, values in zip(group, flat, strict=True)}
    return masks


def masked_mean(old: State, sent: dict[int, State], masks: dict[int, State], dilute: bool) -> State:
    """Over those who sent an entry, what nobody sent keeps its value; diluted: over all, unsent entries as zeros."""
    new: State = {}
    for name, value in old.items():
        kept = {client: masks[client].get(name, torch.ones_like(value)) for client in sent}
        total = sum((samples(k) * kept[k] * state[name] for k, state in sent.items()), start=torch.zeros_like(value))
        if dilute:
            new[name] = total / sum(map(samples, sent))
        else:
            weight = sum((samples(k) * kept[k] for k in sent), start=torch.zeros_like(value))
            new[name] = torch.where(weight > 0, total / weight.clamp(min=1e-300), value)
    return new


def per_fedavg_hessian_free(world: World, alpha: float = 0.05, delta: float = 1e-3) -> None:
    """Fallah et al., Algorithm 1 with section 5's HF: three batches for each step.

    w' = w - a grad f(w; D); v = grad f(w'; D');
    w <- w - b (v - a (grad f(w + d v; D'') - grad f(w - d v; D'')) / (2 d)).
    """
    for number in range(world.rounds):
        sent = {}
        for client in world.participants(number):
            w = copied(world.server)
            batches = list(world.batches(client, number))
            for first, second, third in zip(batches[0::3], batches[1::3], batches[2::3], strict=False):
                at_w = gradient(world.module(w), *first)
                v = gradient(world.module({n: w[n] - alpha * at_w[n] for n in w}), *second)
                above = gradient(world.module({n: w[n] + delta * v[n] for n in w}), *third)
                under = gradient(world.module({n: w[n] - delta * v[n] for n in w}), *third)
                w = {n: w[n] - RATE * (v[n] - alpha * (above[n] - under[n]) / (2 * delta)) for n in w}
            sent[client] = w
        world.server = world.mean(sent, samples)


def reddi_adaptive(
    world: World, rule: str, lr: float = 0.05, beta1: float = 0.9, beta2: float = 0.99, tau: float = 1e-3
) -> None:
    """Reddi et al., Algorithm 2, with v_{-1} = tau^2 and no correction of a bias."""
    m = {name: torch.zeros_like(value) for name, value in world.server.items()}
    v = {name: torch.full_like(value, tau**2) for name, value in world.server.items()}
    for number in range(world.rounds):
        sent = {}
        for client in world.participants(number):
            module = world.sgd(world.module(world.server), client, number)
            sent[client] = copied(module.state_dict())
        mean = world.mean(sent, samples)
        for name, x in world.server.items():
            delta = mean[name] - x
            m[name] = beta1 * m[name] + (1 - beta1) * delta
            square = delta**2
            v[name] = {
                "adam": beta2 * v[name] + (1 - beta2) * square,
                "yogi": v[name] - (1 - beta2) * square * torch.sign(v[name] - square),
                "adagrad": v[name] + square,
            }[rule]
            world.server[name] = x + lr * m[name] / (v[name].sqrt() + tau)


def scaffold(world: World, weights: Callable[[int], float], server_rate: float = 1.0) -> None:
    """Karimireddy et al., option II, for the objective in which client i has weight w_i.

    c is the mean of all c_i in these weights, so those who take part change it by w_i (c_i' - c_i) / sum of all w.
    """
    names = list(world.server)
    zero = {name: torch.zeros_like(world.server[name]) for name in names}
    c, own = dict(zero), {client: dict(zero) for client in range(len(DATA))}
    everybody = sum(map(weights, range(len(DATA))))
    for number in range(world.rounds):
        models: dict[int, State] = {}
        changes: dict[int, State] = {}
        for client in world.participants(number):
            y, batches = dict(world.server), list(world.batches(client, number))
            for inputs, targets in batches:
                g = gradient(world.module(y), inputs, targets)
                y = {n: y[n] - RATE * (g[n] - own[client][n] + c[n]) for n in names}
            new = {n: own[client][n] - c[n] + (world.server[n] - y[n]) / (len(batches) * RATE) for n in names}
            changes[client] = {n: new[n] - own[client][n] for n in names}
            own[client], models[client] = new, y
        mean = world.mean(models, weights)
        world.server = {n: world.server[n] + server_rate * (mean[n] - world.server[n]) for n in names}
        for client, change in changes.items():
            c = {n: c[n] + weights(client) / everybody * change[n] for n in names}
    world.own = {client: {"own_control/" + n: t for n, t in kept.items()} for client, kept in own.items()}
    world.server |= {"control/" + n: c[n] for n in names}
