"""Every number among the settings of anything that is found by name: it works, or it is refused in the user's words."""

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from laws.methods import brief
from partita import registry
from partita.algorithms.fedavg import fedavg
from partita.core.algorithm import Algorithm, with_server
from partita.core.batching import Batching
from partita.core.optimizers import OPTIMIZERS
from partita.core.signatures import FINITE, ranges
from partita.errors import DegenerateWarning, PartitaError
from partita.experiment.simulate import simulate
from partita.servers.averaging import averaging
from toys import small_federation, small_network

VALUES = (-1, -0.5, 0, 1, 5, 10**30, 1e30, math.nan, math.inf, -math.inf)
DATA = small_federation((6, 5))
SHAPES: dict[str, tuple[int, ...]] = {"har_convnet": (6, 128), "word_transformer": (5,), "fasttext": (5,)}
"""Of a sample, where it is not an image."""


def run(algorithm: Algorithm) -> None:
    simulate(brief(algorithm), small_network(), DATA, rounds=2, batching=Batching(3))


def make_model(name: str, **settings: Any) -> None:
    shape = SHAPES.get(name, (3, 32, 32))
    module: nn.Module = registry.get("models", name)(shape=shape, classes=4, **settings)
    words = name in ("word_transformer", "fasttext", "recommender")
    inputs = torch.zeros(2, *shape, dtype=torch.int64) if words else torch.zeros(2, *shape)
    if name == "recommender":
        inputs = torch.zeros(2, dtype=torch.int64)
    module(inputs)


def uses() -> Iterator[tuple[str, Callable[..., Any], Callable[..., object]]]:
    """What is found by name, its function, and what is done with it."""
    for name in registry.names("algorithms"):
        make = registry.get("algorithms", name)
        yield name, make, lambda make=make, **settings: run(make(**settings))
    for name in registry.names("servers"):
        make = registry.get("servers", name)
        yield name, make, lambda make=make, **settings: run(with_server(fedavg(), make(**settings)))
    for name in registry.names("models"):
        yield name, registry.get("models", name), lambda name=name, **settings: make_model(name, **settings)
    for name, make in OPTIMIZERS.items():
        yield (
            f"{name} of clients",
            make,
            lambda make=make, **settings: run(fedavg(optimizer=make(**{"lr": 0.1, **settings}))),
        )
        yield (
            f"{name} of the server",
            make,
            lambda make=make, **settings: run(
                with_server(fedavg(), averaging(optimizer=make(**{"lr": 0.1, **settings})))
            ),
        )


CASES = [
    pytest.param(use, setting, id=f"{name} {setting}")
    for name, make, use in uses()
    for setting in ranges(make)
    if setting not in ("shape", "classes", "rates")
]


@pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make, _ in uses()])
def test_every_number_has_a_range(make: Callable[..., Any]) -> None:
    assert [name for name, each in ranges(make).items() if each == FINITE and name not in ("shape", "classes")] == []


def outcome(use: Callable[..., object], setting: str, value: float) -> str:
    """`works`, or the message."""
    needed = {"items": 7} if use.__defaults__ == ("recommender",) else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateWarning)
        try:
            use(**{**needed, setting: value})
        except PartitaError as problem:
            return str(problem)
    return "works"


@pytest.mark.parametrize(("use", "setting"), CASES)
def test_every_number_works_or_is_refused(use: Callable[..., object], setting: str) -> None:
    for value in VALUES:
        found = outcome(use, setting, value)
        assert "\n" not in found
        if isinstance(value, float) and not math.isfinite(value):
            assert f"{setting} is {value}, but must be" in found
