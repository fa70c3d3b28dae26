"""A small simulation, carried out by whomever a test wants."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from unittest import mock

from torch import Tensor, nn

from partita.core.algorithm import Algorithm, RunPhase
from partita.core.batching import Batching
from partita.experiment.executor import Executor
from partita.experiment.experiment import ENGINES
from partita.experiment.result import Result
from partita.experiment.simulate import simulate
from toys import small_federation, small_network

DATA = replace(small_federation((8, 7, 6, 11, 9)), newcomers=frozenset({3}))
"""Four clients that train, two of them in each round, and a newcomer."""
OPTIONS: Mapping[str, Any] = {
    "rounds": 2,
    "seed": 1,
    "participation": 0.67,
    "batching": Batching(3),
    "evaluate_every": 1,
}


def run(algorithm: Algorithm, on: Executor | str, *, run_phase: RunPhase | None = None, **options: Any) -> Result:
    """`run_phase` replaces the engine."""
    given = {**OPTIONS, **options}
    model, data = given.pop("model", None) or small_network(), given.pop("data", DATA)
    with mock.patch.dict(ENGINES, {"fast": lambda: run_phase} if run_phase else {}):
        return simulate(algorithm, model, data, on=on, **given)


class Wide(nn.Module):
    """Large enough that what travels takes files."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 9000).double()
        self.norm = nn.BatchNorm1d(9000).double()
        self.head = nn.Linear(9000, 3).double()

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.norm(self.body(inputs)).relu())
        return outputs
