"""Do methods with an objective or a server of their own do what their papers say? Against loops in plain torch."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from laws import objectives
from laws.readings import BATCH, DATA, PARTICIPATION, RATE, ROUNDS, SEED, World
from partita.algorithms.apfl import apfl
from partita.algorithms.apple import apple
from partita.algorithms.ditto_finetune import ditto_finetune
from partita.algorithms.fedala import fedala
from partita.algorithms.fedamp import fedamp
from partita.algorithms.fedavg import fedavg
from partita.algorithms.fedcp import fedcp
from partita.algorithms.gpfl import gpfl
from partita.algorithms.pfedme import pfedme
from partita.algorithms.server_update import server_update
from partita.core.algorithm import Algorithm, personalize
from partita.core.batching import Batching
from partita.core.optimizers import SGD
from partita.engine.reference import run_phase
from partita.experiment.simulate import simulate
from toys import scalar_client, scalar_task, small_network

PLAIN = SGD(RATE)


@dataclass(frozen=True)
class Pair:
    """A method with its settings, and the same in plain torch."""

    algorithm: Algorithm
    oracle: Callable[[World], None]


PAIRS = {
    "apfl": Pair(apfl(alpha=0.3, alpha_rate=0.5, optimizer=PLAIN), partial(objectives.apfl, adaptive=True)),
    "apfl fixed": Pair(apfl(alpha=0.3, adaptive=False, optimizer=PLAIN), partial(objectives.apfl, adaptive=False)),
    "server_update": Pair(
        server_update(on=fedavg(optimizer=PLAIN), fraction=0.5, optimizer=PLAIN), objectives.server_update
    ),
    "pfedme": Pair(
        pfedme(strength=2.0, inner_steps=3, inner_lr=0.05, steps=7, beta=0.6, optimizer=PLAIN),
        partial(objectives.pfedme, strength=2.0, inner_steps=3, inner_rate=0.05, steps=7, beta=0.6),
    ),
    "fedamp": Pair(
        fedamp(strength=0.5, alpha=0.4, sigma=2.5, optimizer=PLAIN),
        partial(objectives.fedamp, strength=0.5, alpha=0.4, sigma=2.5),
    ),
    "fedala": Pair(
        fedala(fraction=0.8, mix_lr=3.0, threshold=0.0, max_start_epochs=3, optimizer=PLAIN),
        partial(objectives.fedala, fraction=0.8, mix_rate=3.0, first_epochs=3),
    ),
    "apple": Pair(
        apple(mu=0.3, fade_fraction=1.0, relation_rate=0.5, epochs=1, optimizer=SGD(RATE, momentum=0.5)),
        partial(objectives.apple, mu=0.3, relation_rate=0.5, momentum=0.5),
    ),
    "gpfl": Pair(
        gpfl(strength=0.2, weight_decay=0.1, optimizer=PLAIN), partial(objectives.gpfl, strength=0.2, decay=0.1)
    ),
    "fedcp": Pair(fedcp(strength=5.0, optimizer=PLAIN), partial(objectives.fedcp, strength=5.0)),
}


@pytest.fixture(autouse=True)
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The noise of FedCP's policy is torch's: an oracle could only draw the same."""

    def softmax(logits: Tensor, dim: int = -1, **options: Any) -> Tensor:
        return logits.softmax(dim)

    monkeypatch.setattr(F, "gumbel_softmax", softmax)


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
