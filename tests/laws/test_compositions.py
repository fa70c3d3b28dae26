"""Methods on methods: every pair runs, or is refused in one line that says why."""

import inspect
import warnings

import pytest

from laws.methods import brief
from partita import registry
from partita.algorithms.fedala import fedala
from partita.algorithms.fedprox import fedprox
from partita.algorithms.flayer import ACCURACY, flayer
from partita.core.algorithm import Algorithm
from partita.core.batching import Batching
from partita.core.optimizers import SGD
from partita.errors import DegenerateWarning, PartitaError
from partita.experiment.result import Result
from partita.experiment.simulate import simulate
from toys import small_federation, small_network

NAMES = registry.names("algorithms")
WRAPPERS = [name for name in NAMES if "on" in inspect.signature(registry.get("algorithms", name)).parameters]
REFUSED = {
    ("flayer", "apfl"),
    ("flayer", "apple"),
    ("flayer", "fedcp"),
    ("flayer", "flayer"),
    ("flayer", "gpfl"),
    ("fedprox", "apple"),
    ("server_update", "apple"),
    ("server_update", "fedamp"),
}
"""Pairs that make no sense; all others run."""


def run(algorithm: Algorithm) -> Result:
    return simulate(
        brief(algorithm), small_network(), small_federation((6, 5, 7)), rounds=2, participation=0.67,
        batching=Batching(3),
    )  # fmt: skip


@pytest.mark.parametrize("base", NAMES)
@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_every_method_on_every_other(wrapper: str, base: str) -> None:
    make, on = (registry.get("algorithms", name) for name in (wrapper, base))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateWarning)
        if (wrapper, base) not in REFUSED:
            assert run(make(on=on())).records
            return
        with pytest.raises(PartitaError) as caught:
            run(make(on=on()))
    assert f"on {on().label}: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_flayer_leaves_a_mixture_of_the_method_alone_whatever_the_method_is_called() -> None:
    """FedALA mixes its head itself: FLAYER then notes no accuracy, also where another method stands between."""
    for on in (fedala(), fedprox(on=fedala()), fedala(optimizer=SGD(0.1))):
        assert on.mixed
        assert all(float(own[ACCURACY]) == 0 for own in run(flayer(on=on)).own.values())
