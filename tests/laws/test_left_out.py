"""A client whose loss is not a number can be left out: for every method it is then as if it had not taken part."""

import math
from dataclasses import replace
from typing import Any

import pytest

from bits import digest
from laws.methods import ALGORITHMS
from partita import registry
from partita.core.batching import Batching
from partita.core.samples import Samples
from partita.data.federation import Federation
from partita.errors import DivergedError
from partita.experiment.result import Result
from partita.experiment.simulate import simulate
from toys import small_federation, small_network

SICK = 1
METHODS = [name for name in registry.names("algorithms") if name in ALGORITHMS]


def poisoned() -> Federation:
    """The second of three clients trains on what are not numbers; its test samples are sound."""
    data = small_federation((6, 5, 7))
    inputs = data.samples.inputs.clone()
    inputs[data.roles[SICK]["train"]] = math.nan
    return replace(data, samples=Samples(inputs, data.samples.targets))


DATA = poisoned()


def run(name: str, **options: Any) -> Result:
    given = {"rounds": 2, "seed": 1, "batching": Batching(3), "on": "inline", "evaluate_every": 0, **options}
    return simulate(ALGORITHMS[name], small_network(), DATA, **given)


@pytest.mark.parametrize("name", METHODS)
def test_as_if_it_had_not_taken_part(name: str) -> None:
    found = run(name, on_sick_client="leave_out")
    without = run(name, on_sick_client="leave_out", participation=[[0, 2]])
    assert digest(found.state, dict(sorted(found.own.items()))) == digest(
        without.state, dict(sorted(without.own.items()))
    )
    assert SICK not in found.own, "its state is as it was"
    assert [(each.round, each.client, each.in_a_row) for each in found.left_out] == [(1, SICK, 1), (2, SICK, 2)]
    assert all(row.client != SICK for row in found.traffic)
    others = [record for record in found.records if record.client != SICK]
    assert others == [record for record in without.records if record.client != SICK]


@pytest.mark.parametrize("name", METHODS)
def test_by_default_it_ends_the_run(name: str) -> None:
    with pytest.raises(DivergedError, match=f"client {SICK} "):
        run(name, rounds=1)
