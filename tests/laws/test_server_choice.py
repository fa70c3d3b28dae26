"""Every method that averages works with every way to aggregate; methods with a server of their own refuse."""

import pytest
import torch

from laws.methods import brief
from partita import registry
from partita.core.algorithm import with_server
from partita.core.batching import Batching
from partita.core.server import Aggregation
from partita.errors import PartitaError
from partita.experiment.simulate import simulate
from toys import small_federation, small_network

METHODS = {name: brief(registry.get("algorithms", name)()) for name in registry.names("algorithms")}
OWN = {name for name, method in METHODS.items() if not isinstance(method.server, Aggregation)}
DATA = small_federation((6, 5, 7))


def test_who_has_a_server_of_its_own() -> None:
    assert {"apple", "fedamp", "scaffold"} == OWN


@pytest.mark.parametrize("server", registry.names("servers"))
@pytest.mark.parametrize("name", METHODS)
def test_every_method_with_every_server(name: str, server: str) -> None:
    chosen: Aggregation = registry.get("servers", server)()
    if name in OWN:
        with pytest.raises(PartitaError, match=f"{name} has a server of its own"):
            with_server(METHODS[name], chosen)
        return
    algorithm = with_server(METHODS[name], chosen)
    result = simulate(algorithm, small_network(), DATA, rounds=2, participation=0.67, batching=Batching(3))
    assert result.records
    assert all(torch.isfinite(tensor).all() for tensor in result.state.values())


@pytest.mark.filterwarnings("ignore:Only one client trains")
@pytest.mark.parametrize("server", registry.names("servers"))
def test_with_one_client_the_server_is_no_matter(server: str) -> None:
    """What one client sends is what all clients sent."""
    alone = small_federation((9,))
    one, other = (
        simulate(with_server(METHODS["fedavg"], each), small_network(), alone, rounds=2, batching=Batching(3)).state
        for each in (Aggregation(), registry.get("servers", server)())
    )
    assert all(torch.allclose(one[name], other[name], rtol=0, atol=1e-12) for name in one)
