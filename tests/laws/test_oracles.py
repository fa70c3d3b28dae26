"""Methods written down once more in plain torch: modules, `backward()`, `torch.optim` and state dicts.

Only the raw data, the order of batches and who takes part come from the engine; the arithmetic shares nothing with it.

One file, since all methods are compared in one small world, whose clients, batches and weights stand at the top.
"""

import math
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from partita.algorithms.ditto import ditto
from partita.algorithms.fedalt import fedalt
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedbabu import fedbabu
from partita.algorithms.fedbn import fedbn
from partita.algorithms.fedper import fedper
from partita.algorithms.fedprox import fedprox
from partita.algorithms.fedrep import fedrep
from partita.algorithms.fedsim import fedsim
from partita.algorithms.flayer import flayer
from partita.algorithms.per_fedavg import per_fedavg
from partita.algorithms.scaffold import scaffold
from partita.core.algorithm import Algorithm, personalize
from partita.core.batching import Batching
from partita.core.client import Client
from partita.core.optimizers import SGD, adam
from partita.core.schedules import DECAY
from partita.core.selectors import WEIGHTS, last_blocks, where
from partita.engine.reference import run_phase
from partita.experiment.result import Result
from partita.experiment.samplers import Fraction
from partita.experiment.simulate import simulate
from partita.randomness import Moment, generator
from partita.servers.averaging import averaging
from toys import small_federation, small_network

SEED, PARTICIPATION, BATCH = 3, 0.6, 4
DATA = small_federation((12, 7, 20, 9, 11))

State = dict[str, Tensor]
Penalty = Callable[[nn.Module], Tensor]
Train = Callable[[int, int], nn.Module]
BeforeStep = Callable[[int, int], None]


@dataclass
class World:
    """What an oracle starts with and leaves: the server's state dict, which of it travels, and what clients keep."""

    rounds: int
    norm: bool
    server: State = field(default_factory=dict)
    shared: set[str] = field(default_factory=set)
    own: dict[int, State] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.server = cloned(small_network(self.norm).state_dict())

    def model(self, client: int | None = None) -> nn.Module:
        """The network with the server's weights, and those that a client keeps."""
        module = small_network(self.norm)
        module.load_state_dict(self.server)
        module.load_state_dict({} if client is None else self.own.get(client, {}), strict=False)
        return module

    def participants(self, number: int) -> list[int]:
        return Fraction(PARTICIPATION)(len(DATA), Moment(number, self.rounds, SEED))

    def batches(self, client: int, number: int, epoch: int, purpose: str = "train") -> Iterator[tuple[Tensor, Tensor]]:
        """One epoch; batch norm cannot train on a last batch of one sample."""
        train = DATA[client].train
        order = torch.randperm(len(train), generator=generator(SEED, purpose, number, client, epoch))
        for at in range(0, len(order), BATCH):
            chosen = order[at : at + BATCH]
            if len(chosen) > 1 or not self.norm:
                yield train.inputs[chosen], train.targets[chosen]

    def local(
        self,
        module: nn.Module,
        client: int,
        number: int,
        optimizer: torch.optim.Optimizer,
        *,
        epochs: int = 1,
        penalty: Penalty | None = None,
        purpose: str = "train",
        before_step: BeforeStep | None = None,
    ) -> nn.Module:
        """Epochs of the usual loop over a client's batches."""
        module.train()
        for epoch in range(epochs):
            for step, (inputs, targets) in enumerate(self.batches(client, number, epoch, purpose)):
                module.zero_grad()
                loss = F.cross_entropy(module(inputs), targets)
                torch.autograd.backward(loss + penalty(module) if penalty else loss)
                if before_step:
                    before_step(epoch, step)
                optimizer.step()
        return module

    def keep(self, client: int, module: nn.Module, *beginnings: str) -> nn.Module:
        """What of a client's network is there again when it takes part the next time."""
        self.own[client] = {n: t.clone() for n, t in module.state_dict().items() if n.startswith(beginnings)}
        return module

    def play(self, train: Train, *, but: tuple[str, ...] = (), after: Callable[[], None] | None = None) -> None:
        """All rounds: those who take part train, all but some tensors is averaged."""
        for number in range(self.rounds):
            self.average({client: train(client, number) for client in self.participants(number)}, but=but)
            if after:
                after()

    def average(self, modules: dict[int, nn.Module], *, but: tuple[str, ...] = ()) -> None:
        """The mean over the clients of a round, weighted by their numbers of samples; counters are not averaged."""
        total = sum(DATA.sizes[client] for client in modules)
        states = {client: cloned(module.state_dict()) for client, module in modules.items()}
        for name, old in self.server.items():
            if old.is_floating_point() and not (but and name.startswith(but)):
                self.shared.add(name)
                self.server[name] = torch.stack(
                    [states[client][name] * (DATA.sizes[client] / total) for client in states]
                ).sum(0)


def cloned(state: State) -> State:
    return {name: tensor.detach().clone() for name, tensor in state.items()}


def prefixed(prefix: str, state: State) -> State:
    return {prefix + name: tensor for name, tensor in state.items()}


def only_train(module: nn.Module, *beginnings: str) -> list[nn.Parameter]:
    """Parameters whose name has one of these beginnings; the others are frozen."""
    for name, parameter in module.named_parameters():
        parameter.requires_grad_(name.startswith(beginnings))
    return [parameter for parameter in module.parameters() if parameter.requires_grad]


def near(factor: float, center: State, *beginnings: str) -> Penalty:
    """A factor times the squared distance of live parameters to a centre."""

    def penalty(module: nn.Module) -> Tensor:
        live = [(name, p) for name, p in module.named_parameters() if not beginnings or name.startswith(beginnings)]
        return factor * torch.stack([(parameter - center[name]).square().sum() for name, parameter in live]).sum()

    return penalty


def oracle_fedavg(world: World, mu: float = 0.0) -> None:
    """FedAvg, and with mu FedProx."""

    def train(client: int, number: int) -> nn.Module:
        module = world.model()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
        penalty = near(mu / 2, world.server) if mu else None
        return world.local(module, client, number, optimizer, epochs=2, penalty=penalty)

    world.play(train)


def oracle_fedper(world: World, personal: tuple[str, ...]) -> None:
    """All is trained together, and what is not personal is averaged."""

    def train(client: int, number: int) -> nn.Module:
        module = world.model(client)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.5)
        world.local(module, client, number, optimizer, epochs=2)
        return world.keep(client, module, *personal)

    world.play(train, but=personal)


def oracle_fedbabu(world: World) -> None:
    """The head stays as drawn; the learning rate falls to a tenth after K // 2 and again after 3 K // 4 rounds."""

    def train(client: int, number: int) -> nn.Module:
        module = world.model()
        rate = 0.1 * 0.1 ** ((number >= world.rounds // 2) + (number >= 3 * world.rounds // 4))
        optimizer = torch.optim.SGD(only_train(module, "layer"), lr=rate, momentum=0.9, weight_decay=0.1)
        return world.local(module, client, number, optimizer, epochs=2)

    world.play(train, but=("head",))


def oracle_fedalt(world: World, *, server_adam: bool = False) -> None:
    """First the head, then the rest under the new head; the server takes the mean, or follows it with Adam."""
    server = {name: nn.Parameter(tensor.clone()) for name, tensor in world.server.items() if name.startswith("layer")}
    optimizer = torch.optim.Adam(server.values(), lr=0.05)

    def train(client: int, number: int) -> nn.Module:
        module = world.model(client)
        for part, rate, epochs in (("head", 0.2, 2), ("layer", 0.1, 1)):
            fresh = torch.optim.SGD(only_train(module, part), lr=rate, momentum=0.9)
            world.local(module, client, number, fresh, epochs=epochs)
        return world.keep(client, module, "head")

    def follow() -> None:
        for name, parameter in server.items():
            parameter.grad = parameter.detach() - world.server[name]
        optimizer.step()
        world.server |= cloned({name: parameter.data for name, parameter in server.items()})

    world.play(train, but=("head",), after=follow if server_adam else None)


def oracle_fedrep(world: World, *, switched: bool) -> None:
    """Head, then body, decay on weights only; `switched` is one optimizer whose rates go on and off."""

    def groups(module: nn.Module, part: str) -> list[dict[str, object]]:
        return [
            {"params": [parameter], "part": part, "weight_decay": 0.05 if name.endswith("weight") else 0.0}
            for name, parameter in module.named_parameters()
            if name.startswith(part)
        ]

    def train(client: int, number: int) -> nn.Module:
        module = world.model(client)
        both = torch.optim.SGD(groups(module, "head") + groups(module, "layer"), lr=0.1, momentum=0.5)
        for part, epochs in (("head", 2), ("layer", 1)):
            for group in both.param_groups:
                group["lr"] = 0.1 if group["part"] == part else 0.0
            fresh = torch.optim.SGD(groups(module, part), lr=0.1, momentum=0.5)
            world.local(module, client, number, both if switched else fresh, epochs=epochs)
        return world.keep(client, module, "head")

    world.play(train, but=("head",))


def oracle_fedsim(world: World) -> None:
    """A personal layer in the middle, drawn to its initial value by lambda |v - v0|^2 (without a half)."""
    initial = cloned(world.server)

    def train(client: int, number: int) -> nn.Module:
        module = world.model(client)
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9, nesterov=True)
        world.local(module, client, number, optimizer, penalty=near(0.3, initial, "layer2"))
        return world.keep(client, module, "layer2")

    world.play(train, but=("layer2",))


def oracle_ditto(world: World) -> None:
    """FedAvg, and beside it a personal network near what was received, not near what became of it."""
    initial = cloned(world.server)

    def train(client: int, number: int) -> nn.Module:
        world.own.setdefault(client, initial)
        common, personal = world.model(), world.model(client)
        world.local(common, client, number, torch.optim.SGD(common.parameters(), lr=0.1, momentum=0.9))
        optimizer = torch.optim.SGD(personal.parameters(), lr=0.05)
        world.local(personal, client, number, optimizer, epochs=2, penalty=near(0.75 / 2, world.server))
        world.keep(client, personal, "")
        return common

    world.play(train)
    world.own = {client: prefixed("personal/", kept) for client, kept in world.own.items()}


def oracle_per_fedavg(world: World) -> None:
    """Adapt on one batch, take the gradient there on the next, apply it where the adaptation began."""

    def train(client: int, number: int) -> nn.Module:
        module = world.model()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
        for epoch in range(2):
            batches = list(world.batches(client, number, epoch))
            for first, second in zip(batches[::2], batches[1::2], strict=False):
                adapted = deepcopy(module)
                for (inputs, targets), alpha in ((first, 0.05), (second, 0.0)):
                    adapted.zero_grad()
                    torch.autograd.backward(F.cross_entropy(adapted(inputs), targets))
                    torch.optim.SGD(adapted.parameters(), lr=alpha).step()
                for parameter, there in zip(module.parameters(), adapted.parameters(), strict=True):
                    parameter.grad = there.grad
                optimizer.step()
        return module

    world.play(train)


def oracle_scaffold(world: World) -> None:
    """Option II: the new control variate is the old one minus the server's plus the mean step of the round."""
    rate, zeros = 0.1, {name: torch.zeros_like(tensor) for name, tensor in world.server.items()}
    control, own = cloned(zeros), dict[int, State]()
    for number in range(world.rounds):
        moves, changes = list[State](), list[State]()
        for client in world.participants(number):
            old, module, steps = own.get(client, zeros), world.model(), 0
            for epoch in range(2):
                for inputs, targets in world.batches(client, number, epoch):
                    loss = F.cross_entropy(module(inputs), targets)
                    gradients = torch.autograd.grad(loss, list(module.parameters()))
                    with torch.no_grad():
                        for (name, parameter), gradient in zip(module.named_parameters(), gradients, strict=True):
                            parameter.sub_(rate * (gradient - old[name] + control[name]))
                    steps += 1
            moves.append({name: tensor - world.server[name] for name, tensor in module.state_dict().items()})
            own[client] = {name: old[name] - control[name] - move / (steps * rate) for name, move in moves[-1].items()}
            changes.append({name: new - old[name] for name, new in own[client].items()})
        for name in zeros:
            world.server[name] = world.server[name] + torch.stack([move[name] for move in moves]).mean(0)
            control[name] = control[name] + torch.stack([change[name] for change in changes]).sum(0) / len(DATA)
    world.server |= prefixed("control/", control)
    world.shared = set(world.server)
    world.own = {client: prefixed("own_control/", kept) for client, kept in own.items()}


LAYERS = ("layer1", "layer2", "head")


def oracle_flayer(world: World, head: tuple[str, ...]) -> None:
    """Equations 2 to 9 of the paper, with L = 3 layers."""
    accuracy = dict[int, float]()
    for number in range(world.rounds):
        trained, masks = dict[int, State](), dict[int, State]()
        for client in world.participants(number):
            module = world.model()
            # Equation 2: the head between the client's own and the received one.
            share = accuracy.get(client, 0.0)
            kept = world.own.get(client, {})
            module.load_state_dict(
                {name: share * tensor + (1 - share) * world.server[name] for name, tensor in kept.items()},
                strict=False,
            )
            before = cloned(module.state_dict())
            # Equations 3 and 4: a rate for each layer.
            groups = [{"params": [p for n, p in module.named_parameters() if n.startswith(at)]} for at in LAYERS]
            optimizer = torch.optim.SGD(groups, lr=0.05)
            world.local(module, client, number, optimizer, epochs=2, before_step=layer_rates(optimizer, 0.05))
            # Equations 5 to 9: of layer i the fraction i / L of the entries, those that changed most.
            trained[client] = after = cloned(module.state_dict())
            masks[client] = {n: largest((after[n] - before[n]).abs(), depth(n)) for n in after}
            world.keep(client, module, *head)
            accuracy[client] = validation_accuracy(module, client)
        for name, old in world.server.items():
            weights = torch.stack([masks[client][name] * DATA.sizes[client] for client in trained])
            values = torch.stack([trained[client][name] for client in trained])
            sent = weights.sum(0)
            world.server[name] = torch.where(sent > 0, (weights * values).sum(0) / sent, old)
    world.shared = set(world.server)
    for client, share in accuracy.items():
        world.own[client]["flayer/accuracy"] = torch.tensor(share, dtype=torch.float64)


def depth(name: str) -> float:
    """i / L"""
    return (LAYERS.index(name.partition(".")[0]) + 1) / len(LAYERS)


def layer_rates(optimizer: torch.optim.Optimizer, rate: float) -> BeforeStep:
    """Rates by equation 4, from the gradient of the first batch of a round."""

    def set_rates(epoch: int, step: int) -> None:
        for i, group in enumerate(optimizer.param_groups, 1):
            if epoch == step == 0:
                norm = math.sqrt(sum(float(parameter.grad.square().sum()) for parameter in group["params"]))
                group["lr"] = rate * (1 + math.log(1 + 1 / (norm + 1e-8)) * i / len(LAYERS))

    return set_rates


def largest(values: Tensor, fraction: float) -> Tensor:
    """One at the largest fraction of the entries, rounded up."""
    flat = values.flatten().tolist()
    count = math.ceil(round(fraction * len(flat), 9))
    first = set(sorted(range(len(flat)), key=lambda at: -flat[at])[:count])
    return torch.tensor([float(at in first) for at in range(len(flat))], dtype=values.dtype).reshape(values.shape)


def validation_accuracy(module: nn.Module, client: int) -> float:
    validation = DATA[client].validation
    module.eval()
    with torch.no_grad():
        return float((module(validation.inputs).argmax(1) == validation.targets).double().mean())


@dataclass(frozen=True)
class Pair:
    """A method of the engine and the oracle for it."""

    algorithm: Algorithm
    oracle: Callable[[World], None]
    norm: bool = False


DECAYED = fedavg(epochs=2, optimizer=SGD(0.1, momentum=0.9, weight_decay=0.01))
JOINT = SGD(0.05, momentum=0.5)
ALTERNATE = fedalt(personal_epochs=2, optimizer=SGD(0.1, momentum=0.9), personal_optimizer=SGD(0.2, momentum=0.9))
BABU = fedbabu(epochs=2, optimizer=SGD(0.1, momentum=0.9, weight_decay=0.1, schedule=DECAY), finetune_epochs=2)
PERSONAL_MIDDLE = fedsim(personal=where("layer2"), optimizer=SGD(0.1, momentum=0.9, nesterov=True), regularization=0.3)
DITTO = ditto(optimizer=SGD(0.1, momentum=0.9), personal_epochs=2, personal_optimizer=SGD(0.05))
REPRESENTATION = partial(
    fedrep,
    head_epochs=2,
    optimizer=SGD(0.1, momentum=0.5, weight_decay=0.05, decayed=WEIGHTS),
    final_head_epochs=0,
)
LAYERWISE = partial(flayer, on=fedavg(epochs=2, optimizer=SGD(0.05)))

PAIRS = {
    "fedavg": Pair(DECAYED, oracle_fedavg),
    "fedavg norm": Pair(DECAYED, oracle_fedavg, norm=True),
    "fedprox": Pair(fedprox(mu=0.5, on=DECAYED), partial(oracle_fedavg, mu=0.5)),
    "fedper": Pair(fedper(epochs=2, optimizer=JOINT), partial(oracle_fedper, personal=("head",)), norm=True),
    "fedper 2": Pair(
        fedper(blocks=2, epochs=2, optimizer=JOINT), partial(oracle_fedper, personal=("layer2", "head")), norm=True
    ),
    "fedbn": Pair(fedbn(epochs=2, optimizer=JOINT), partial(oracle_fedper, personal=("norm1",)), norm=True),
    "fedbabu": Pair(BABU, oracle_fedbabu),
    "fedalt": Pair(ALTERNATE, oracle_fedalt),
    "fedalt adam": Pair(
        replace(ALTERNATE, server=averaging(optimizer=adam(0.05))), partial(oracle_fedalt, server_adam=True)
    ),
    "fedrep": Pair(REPRESENTATION(), partial(oracle_fedrep, switched=False)),
    "fedrep switched": Pair(REPRESENTATION(switched=True), partial(oracle_fedrep, switched=True)),
    "fedsim": Pair(PERSONAL_MIDDLE, oracle_fedsim),
    "ditto": Pair(DITTO, oracle_ditto),
    "scaffold": Pair(scaffold(epochs=2), oracle_scaffold),
    "per_fedavg": Pair(per_fedavg(alpha=0.05, epochs=2, optimizer=SGD(0.1, momentum=0.9)), oracle_per_fedavg),
    "flayer": Pair(LAYERWISE(), partial(oracle_flayer, head=("head",))),
    "flayer 2": Pair(LAYERWISE(head=last_blocks(2)), partial(oracle_flayer, head=("layer2", "head"))),
}


def run(pair: Pair, rounds: int) -> tuple[Result, World]:
    result = simulate(
        pair.algorithm,
        small_network(pair.norm),
        DATA,
        rounds=rounds,
        seed=SEED,
        participation=PARTICIPATION,
        batching=Batching(BATCH),
    )
    world = World(rounds, pair.norm)
    pair.oracle(world)
    return result, world


def assert_same(one: State, other: State) -> None:
    """The same names, and to rounding the same values."""
    torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("name", PAIRS)
def test_the_engine_agrees_with_plain_torch(name: str, rounds: int) -> None:
    result, world = run(PAIRS[name], rounds)
    assert_same(
        {name: tensor for name, tensor in result.state.items() if not name.startswith("server/")},
        {name: world.server[name] for name in world.shared},
    )
    present = {client for number in range(rounds) for client in world.participants(number)}
    assert result.own.keys() == present
    for client in present:
        assert_same(result.own[client], world.own.get(client, {}))


def test_fine_tuning_agrees_with_plain_torch() -> None:
    """FedBABU before use: all weights, from the last download, on batches of their own."""
    result, world = run(PAIRS["fedbabu"], 3)
    moment = Moment(3, 3, SEED)
    for number in range(len(DATA)):
        received = result.algorithm.server.download(result.state, number, moment)
        client = Client(
            number,
            result.task,
            DATA[number].train,
            DATA[number].validation,
            moment,
            Batching(BATCH),
            received=received,
        )
        [tuned] = personalize(result.algorithm, [client], run_phase)
        module = world.model()
        optimizer = torch.optim.SGD(module.parameters(), lr=0.001, momentum=0.9)
        world.local(module, number, 3, optimizer, epochs=2, purpose="finetune")
        assert_same(tuned, cloned(module.state_dict()))


def test_records_agree_with_plain_torch() -> None:
    """FedPer on all clients: the composed model after the last download, on validation and test data."""
    result, world = run(PAIRS["fedper"], 2)
    for role in ("validation", "test"):
        records = result.select(role=role)
        assert [record.client for record in records] == list(range(len(DATA)))
        for record in records:
            samples = getattr(DATA[record.client], role)
            module = world.model(record.client).eval()
            with torch.no_grad():
                outputs = module(samples.inputs)
            assert record.count == len(samples)
            assert record.correct == int((outputs.argmax(1) == samples.targets).sum())
            loss = float(F.cross_entropy(outputs, samples.targets, reduction="sum"))
            assert record.loss == pytest.approx(loss, abs=1e-9)
