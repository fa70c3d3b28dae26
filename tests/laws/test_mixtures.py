"""Do APFL, the server that trains and Ditto as a fine-tuning do what their papers say? Loops in plain torch.

Data, batches and participants are those of `readings.py`; the arithmetic shares nothing with the engine.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional as F

from laws.readings import BATCH, DATA, PARTICIPATION, RATE, ROUNDS, SEED, State, World, copied, of, samples
from partita.algorithms.apfl import apfl
from partita.algorithms.ditto_finetune import ditto_finetune
from partita.algorithms.fedavg import fedavg
from partita.algorithms.server_update import server_update
from partita.core.algorithm import Algorithm, personalize
from partita.core.batching import Batching
from partita.core.optimizers import SGD
from partita.engine.reference import run_phase
from partita.randomness import generator
from partita.simulation.simulate import simulate
from toys import scalar_client, scalar_task, small_network

PLAIN = SGD(RATE)


def leaves(*states: State) -> list[State]:
    return [{name: tensor.detach().clone().requires_grad_() for name, tensor in state.items()} for state in states]


def slopes(loss: Tensor, *states: State) -> list[State]:
    """The gradient of each state's tensors."""
    found = iter(torch.autograd.grad(loss, [tensor for state in states for tensor in state.values()]))
    return [{name: next(found) for name in state} for state in states]


def moved(state: State, gradient: State, rate: float = RATE) -> State:
    return {name: (tensor - rate * gradient[name]).detach() for name, tensor in state.items()}


def oracle_apfl(world: World, adaptive: bool) -> None:
    """Deng et al.: w by f(w); v and alpha by f(alpha v + (1 - alpha) w), all gradients at the same point."""
    network, initial = small_network(False), dict(world.server)
    for number in range(world.rounds):
        sent = {}
        for client in world.participants(number):
            w, kept = dict(world.server), world.own.get(client)
            v = of(kept, "layer", "head") if kept else dict(initial)
            alpha = kept["alpha"] if kept else torch.tensor(0.3, dtype=torch.float64)
            for inputs, targets in world.batches(client, number):
                [own], [shared] = leaves(v), leaves(w)
                alpha = alpha.detach().requires_grad_()
                mixed = {n: alpha * own[n] + (1 - alpha) * w[n] for n in w}
                of_mixture = F.cross_entropy(functional_call(network, mixed, (inputs,)), targets)
                of_shared = F.cross_entropy(functional_call(network, shared, (inputs,)), targets)
                by_own, by_alpha = slopes(of_mixture, own, {"alpha": alpha})
                v, w = moved(own, by_own), moved(shared, slopes(of_shared, shared)[0])
                alpha = (alpha - (0.5 * RATE if adaptive else 0) * by_alpha["alpha"]).clamp(0, 1).detach()
            world.own[client], sent[client] = v | {"alpha": alpha}, w
        world.server = world.mean(sent, samples)
    world.own = {
        client: {("apfl/" if name == "alpha" else "personal/") + name: tensor for name, tensor in kept.items()}
        for client, kept in world.own.items()
    }


def oracle_server_update(world: World) -> None:
    """Oh et al., section 4: after each aggregation an epoch over the server's sample, on the body alone."""
    network = small_network(False)
    inputs = torch.cat([DATA[client].train.inputs for client in range(len(DATA))])
    targets = torch.cat([DATA[client].train.targets for client in range(len(DATA))])
    held = torch.randperm(len(targets), generator=generator(SEED, "server data"))[: len(targets) // 2]
    for number in range(world.rounds):
        modules = {k: world.sgd(world.module(world.server), k, number) for k in world.participants(number)}
        world.server = world.mean({k: copied(module.state_dict()) for k, module in modules.items()}, samples)
        order = torch.randperm(len(held), generator=generator(SEED, "train", number, -1, 0))
        for rows in torch.split(held[order], BATCH):
            [body] = leaves(of(world.server, "layer"))
            answers = functional_call(network, {**world.server, **body}, (inputs[rows],))
            world.server |= moved(body, slopes(F.cross_entropy(answers, targets[rows]), body)[0])


@dataclass(frozen=True)
class Pair:
    """A method with its settings, and the same in plain torch."""

    algorithm: Algorithm
    oracle: Callable[[World], None]


PAIRS = {
    "apfl": Pair(apfl(alpha=0.3, alpha_rate=0.5, optimizer=PLAIN), partial(oracle_apfl, adaptive=True)),
    "apfl fixed": Pair(apfl(alpha=0.3, adaptive=False, optimizer=PLAIN), partial(oracle_apfl, adaptive=False)),
    "server_update": Pair(
        server_update(on=fedavg(optimizer=PLAIN), fraction=0.5, optimizer=PLAIN), oracle_server_update
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_the_engine_agrees_with_plain_torch(name: str) -> None:
    result = simulate(
        PAIRS[name].algorithm, small_network(False), DATA, seed=SEED, participation=PARTICIPATION, rounds=ROUNDS,
        batching=Batching(BATCH), on="inline",
    )  # fmt: skip
    world = World()
    PAIRS[name].oracle(world)
    torch.testing.assert_close(dict(result.state), world.server, rtol=0, atol=1e-10)
    for client, own in result.own.items():
        torch.testing.assert_close(dict(own), world.own.get(client, {}), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("steps", "expected"), [(1, 1.9), (2, 1.82), (300, 1.5)])
def test_ditto_finetune_steps(steps: int, expected: float) -> None:
    """From the received w = 2 the gradient is (v - 1) + 2 * 0.5 (v - 2), so v -> 0.8 v + 0.3, to 1.5."""
    client = replace(scalar_client(scalar_task(w=0.0), 1.0, steps), received={"w": torch.tensor(2.0).double()})
    [used] = personalize(ditto_finetune(strength=0.5, epochs=1, optimizer=SGD(0.1)), [client], run_phase)
    assert float(used["w"]) == pytest.approx(expected, abs=1e-12)
