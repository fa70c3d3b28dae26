"""Does the engine agree with the second oracle? Server, clients and every client's test loss, against `equations.py`.

The network has four layers, a norm among them if asked for; clients train two epochs of unequal numbers of batches.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from laws import equations
from laws.equations import Round, Samples, Tensors
from partita.algorithms.fedavg import fedavg
from partita.algorithms.flayer import ACCURACY, flayer
from partita.algorithms.lg_fedavg import lg_fedavg
from partita.algorithms.per_fedavg import per_fedavg
from partita.algorithms.scaffold import scaffold
from partita.core.algorithm import Algorithm, with_server
from partita.core.batching import Batching
from partita.core.optimizers import SGD, adam
from partita.core.selectors import last_blocks
from partita.experiment.result import Result
from partita.experiment.samplers import Fraction
from partita.experiment.simulate import simulate
from partita.randomness import Moment, generator
from partita.servers.averaging import averaging
from toys import small_federation

SEED, ROUNDS, BATCH, RATE = 11, 3, 4, 0.2
SIZES = (9, 22, 14, 30, 11, 17)
DATA = small_federation(SIZES, seed=4)
PLAIN = SGD(RATE)
LAYERWISE = partial(flayer, on=fedavg(epochs=2, optimizer=PLAIN))
LAYERS = (("one", "norm"), ("two",), ("three",), ("four",))


def network(norm: bool, bias: bool = True) -> nn.Module:
    """`bias` is that of the layer before the norm, which cancels it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        modules: dict[str, nn.Module] = {
            "one": nn.Linear(4, 7, bias=bias),
            "norm": nn.BatchNorm1d(7),
            "bend": nn.Tanh(),
        }
        modules |= {"two": nn.Linear(7, 6), "bend_too": nn.Tanh(), "three": nn.Linear(6, 5), "four": nn.Linear(5, 3)}
    return nn.Sequential(OrderedDict((n, m) for n, m in modules.items() if norm or n != "norm")).double()


def federation(module: nn.Module, epochs: int) -> equations.Federation:
    """The data, participants and order of batches that the engine has; one round more, to see how it begins."""
    norm = hasattr(module, "norm")
    names = [name for name, _ in module.named_parameters()]

    def batches(number: int, client: int) -> list[Samples]:
        train, found = DATA[client].train, []
        for epoch in range(epochs):
            order = torch.randperm(len(train), generator=generator(SEED, "train", number, client, epoch))
            found += [rows for rows in torch.split(order, BATCH) if len(rows) > 1 or not norm]  # a norm needs two
        return [(train.inputs[rows], train.targets[rows]) for rows in found]

    return equations.Federation(
        network=module,
        layers=[[name for name in names if name.split(".")[0] in layer] for layer in LAYERS],
        initial=equations.copied(module.state_dict()),
        sizes=SIZES,
        rounds=[Fraction(0.5)(len(DATA), Moment(number, ROUNDS, SEED)) for number in (*range(ROUNDS), 0)],
        batches=batches,
        local=[(DATA[k].validation.inputs, DATA[k].validation.targets) for k in range(len(DATA))],
    )


@dataclass(frozen=True)
class Case:
    """A method with its settings, and the same in the oracle."""

    algorithm: Algorithm
    oracle: Callable[[equations.Federation], list[Round]]
    norm: bool = False
    bias: bool = True
    epochs: int = 2

    def network(self) -> nn.Module:
        return network(self.norm, self.bias)

    def run(self) -> Result:
        return simulate(
            self.algorithm, self.network(), DATA, seed=SEED, participation=0.5, rounds=ROUNDS,
            batching=Batching(BATCH), evaluate_every=1, on="inline",
        )  # fmt: skip


def layerwise(s: int, *, norm: bool = False, bias: bool = True, **parts: bool) -> Case:
    """FLAYER with the oracle's switches, and the engine's of the same meaning."""
    algorithm = LAYERWISE(
        head=last_blocks(s),
        agg="accuracy" if parts.get("blend", True) else "none",
        lr=parts.get("adaptive", True),
        mask=parts.get("masked", True),
        joint_mask=parts.get("joint", False),
        dilute=parts.get("dilute", False),
    )
    return Case(algorithm, lambda given: equations.flayer(given, rate=RATE, head=s, **parts), norm, bias)


CASES = {
    "flayer": layerwise(1),
    "flayer norm": layerwise(1, norm=True),
    "flayer 2": layerwise(2),
    "flayer blend": layerwise(1, adaptive=False, masked=False),
    "flayer blend 2": layerwise(2, adaptive=False, masked=False),
    "flayer rates": layerwise(1, blend=False, masked=False),
    "flayer masks": layerwise(1, blend=False, adaptive=False),
    "flayer masks joint": layerwise(1, blend=False, adaptive=False, joint=True),
    "flayer masks dilute": layerwise(1, blend=False, adaptive=False, dilute=True),
    "flayer masks dilute joint": layerwise(1, blend=False, adaptive=False, dilute=True, joint=True),
    "flayer dilute": layerwise(1, dilute=True),
    "flayer 2 dilute joint": layerwise(2, dilute=True, joint=True),
    "flayer norm joint": layerwise(1, norm=True, joint=True),
    "flayer norm dilute": layerwise(1, norm=True, bias=False, dilute=True),
    "flayer norm 2 dilute joint": layerwise(2, norm=True, dilute=True, joint=True),
    "lg_fedavg": Case(lg_fedavg(epochs=2, optimizer=PLAIN), partial(equations.lg_fedavg, rate=RATE)),
    "lg_fedavg 2": Case(
        lg_fedavg(blocks=2, epochs=2, optimizer=PLAIN), partial(equations.lg_fedavg, rate=RATE, head=2)
    ),
    "per_fedavg hessian-free": Case(
        per_fedavg(alpha=0.07, delta=1e-3, optimizer=PLAIN),
        partial(equations.per_fedavg, inner=0.07, rate=RATE, delta=1e-3),
        epochs=1,
    ),
    "fedadam": Case(
        with_server(
            fedavg(epochs=2, optimizer=PLAIN),
            averaging(optimizer=adam(0.05, beta2=0.99, epsilon=1e-2, bias_correction=False, second_moment=1e-4)),
        ),
        partial(equations.fedadam, rate=RATE, server_rate=0.05, beta1=0.9, beta2=0.99, tau=1e-2),
    ),
    "scaffold samples": Case(
        scaffold(epochs=2, optimizer=PLAIN, weights="samples", server_lr=0.8),
        partial(equations.scaffold, rate=RATE, server_rate=0.8),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_engine_agrees_with_the_equations(name: str) -> None:
    """The server's state, what clients keep, and the test loss of the model every client begins the next round with."""
    case = CASES[name]
    result, given = case.run(), federation(case.network(), case.epochs)
    *history, after = case.oracle(given)
    assert_same(result.state, history[-1].server)
    for client, own in result.own.items():
        assert_same({name.removeprefix("own_control/"): t for name, t in own.items()}, history[-1].own.get(client, {}))
    for number, begun in enumerate([*(each.begun for each in history[1:]), after.begun], start=1):
        losses = [loss_of(given, begun[client], client) for client in given.everyone]
        records = result.select(round=number, variant="before_local", role="test")
        assert [record.loss / record.count for record in records] == pytest.approx(losses, abs=1e-10)


def test_scaffolds_control_is_the_mean_of_the_clients_by_samples() -> None:
    """Of all clients: c_k is zero for one that never took part."""
    result = CASES["scaffold samples"].run()
    for name in result.task.network.parameters:
        parts = [SIZES[client] / sum(SIZES) * own["own_control/" + name] for client, own in result.own.items()]
        torch.testing.assert_close(result.state["control/" + name], torch.stack(parts).sum(0), rtol=0, atol=1e-12)


def test_a_bias_before_a_norm_is_ranked_by_rounding_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its gradient is zero, so chance decides which entries `dilute` makes zero; training depends on none of them.

    Without a blend, since the accuracy is that of the network in use, which does depend on them.
    """
    case = layerwise(1, norm=True, blend=False, dilute=True)
    changes: list[float] = []
    rank = equations.masks

    def noted(given: equations.Federation, before: Tensors, after: Tensors, *, joint: bool) -> Tensors:
        changes.append((after["one.bias"] - before["one.bias"]).abs().max().item())
        return rank(given, before, after, joint=joint)

    monkeypatch.setattr(equations, "masks", noted)
    history = case.oracle(federation(case.network(), case.epochs))
    assert max(changes) < 1e-13
    chance = ("one.bias", "norm.running_mean")
    engine, oracle = case.run().state, history[ROUNDS - 1].server
    assert_same(*({n: t for n, t in state.items() if n not in chance} for state in (engine, oracle)))


def loss_of(given: equations.Federation, model: Tensors, client: int) -> float:
    test = DATA[client].test
    return cross_entropy(equations.logits(given, model, test.inputs), test.targets).item()


def assert_same(engine: Mapping[str, Tensor], oracle: Tensors) -> None:
    """FLAYER's accuracy shows in the losses; SCAFFOLD's control has a test of its own."""
    extra = {name for name in engine if name.startswith(("server/", "control/")) or name == ACCURACY}
    floats = {name: value for name, value in oracle.items() if value.is_floating_point()}
    torch.testing.assert_close({n: t for n, t in engine.items() if n not in extra}, floats, rtol=0, atol=1e-10)
