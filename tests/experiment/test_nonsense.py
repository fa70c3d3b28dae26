"""Every number of an experiment, its data and its division: it works, or it is refused in one line."""

import inspect
import math
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch

from partita import registry
from partita.algorithms.fedavg import fedavg
from partita.core.batching import Batching
from partita.data.federation import federate
from partita.data.pool import Pool
from partita.errors import PartitaError
from partita.experiment.executors.inline import inline
from partita.experiment.experiment import Experiment
from partita.experiment.settings.settings import arguments, build
from partita.experiment.simulate import run_stages
from partita.models.logistic import logistic
from partita.randomness import Moment

NUMBERS = (-1, -0.5, 0, 1, 5, 10**30, 1e30, math.nan, math.inf, -math.inf)
OTHERS: tuple[object, ...] = (True, "bogus", "", [], [1], [[0, 1]], {}, None)
LONG = ("rounds", "tries")
"""What would work, and never end, with a large number."""


def pool() -> Pool:
    """Images of three classes and six people, with an official test set."""
    count = 60
    return Pool(
        "small",
        torch.rand(count, 1, 4, 4, generator=torch.Generator().manual_seed(0)),
        torch.arange(count) % 3,
        3,
        clients=torch.arange(count) % 6,
        client_names=list("abcdef"),
        official_test=torch.from_numpy(np.arange(count) >= 30),
    )


DATA = federate(pool(), registry.get("splits", "iid")(clients=3))
SPLITS = [
    (name, setting)
    for name in registry.names("splits")
    # A file, and another library's own settings.
    if name not in ("manifest", "flwr")
    for setting in inspect.signature(registry.get("splits", name)).parameters
]
DIVIDING = [name for name in inspect.signature(federate).parameters if name not in ("pool", "split")]
PROTOCOL = [
    *(name for name in inspect.signature(Experiment).parameters if name not in ("algorithm", "model", "data")),
    *(f"batching.{name}" for name in inspect.signature(Batching).parameters),
]


def experiment(settings: Mapping[str, Any]) -> Experiment:
    known = arguments(Experiment, settings, "", without=("algorithm", "model", "data"))
    return Experiment(**{"algorithm": fedavg(), "model": logistic, "data": DATA, "rounds": 1, **known})


def outcomes(use: Any, values: tuple[object, ...]) -> dict[str, str]:
    """What comes of each value: nothing, or the message."""
    found = {}
    for value in values:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                use(value)
            except PartitaError as problem:
                found[repr(value)] = str(problem)
    assert [text for text in found.values() if "\n" in text or not text] == []
    return found


@pytest.mark.parametrize(("name", "setting"), SPLITS)
def test_settings_of_a_split(name: str, setting: str) -> None:
    make = registry.get("splits", name)
    values = tuple(value for value in NUMBERS + OTHERS if not (setting in LONG and value in (10**30, 1e30)))
    found = outcomes(lambda value: federate(pool(), build(make, {setting: value}, name)), values)
    if str(inspect.signature(make).parameters[setting].annotation) != "bool":
        assert {"-1", "nan", "inf", "'bogus'"} <= found.keys()


@pytest.mark.parametrize("setting", DIVIDING)
def test_settings_of_a_division(setting: str) -> None:
    found = outcomes(
        lambda value: federate(pool(), **arguments(federate, {setting: value}, "", without=("pool",), complete=False)),
        NUMBERS + OTHERS,
    )
    assert {"nan", "inf", "'bogus'"} <= found.keys()
    assert "-1" in found or setting == "seed"


@pytest.mark.parametrize("setting", PROTOCOL)
def test_settings_of_an_experiment(setting: str) -> None:
    first, _, rest = setting.partition(".")

    def use(value: object) -> None:
        if not (setting in LONG and isinstance(value, int | float) and value > 5):
            run_stages(experiment({first: {rest: value} if rest else value}), inline())

    found = outcomes(use, NUMBERS + OTHERS)
    assert "'bogus'" in found
    assert "-1" in found or setting == "seed"


def test_a_list_of_participants_is_a_setting() -> None:
    made = experiment({"participation": [[0, 1], [2]]})
    assert [made.sampler(3, Moment(at, 3)) for at in (0, 1, 2)] == [[0, 1], [2], [0, 1]]
