"""A federation over Flower: real processes, TLS, a key for each site, and the bits of a simulation."""

import socket
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from bits import digest
from partita import extras
from partita.algorithms.fedper import fedper
from partita.algorithms.flayer import flayer
from partita.api.run import keep
from partita.core.algorithm import Algorithm
from partita.deploy.federated import federated
from partita.deploy.loopback import loopback
from partita.deploy.personal import PersonalStore
from partita.deploy.plan import Plan
from partita.deploy.server import Limits
from partita.deploy.superlink import SuperLink
from partita.errors import PartitaError
from partita.experiment.settings import federation_of
from partita.models.mlp import mlp
from partita.runs.store import Store
from partita.simulation.executors.inline import Inline
from partita.simulation.experiment import Experiment
from partita.simulation.simulate import run_stages

DATA = {"name": "digits", "split": {"name": "dirichlet", "clients": 3, "alpha": 0.5}}


def made(algorithm: Algorithm) -> Experiment:
    data = federation_of(DATA, "data")
    return Experiment(algorithm, mlp, data, rounds=2, seed=3, participation="all", evaluate_every=0)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", [fedper(epochs=1), flayer(on=fedper(epochs=1))], ids=["fedper", "flayer"])
def test_the_bits_of_a_simulation_and_no_personal_byte_at_the_superlink(algorithm: Algorithm) -> None:
    experiment = made(algorithm)
    plan, expected = Plan.of(experiment), run_stages(experiment, Inline())
    # With a short path, as sockets need one.
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with (
            loopback(plan, DATA, folder) as superlink,
            federated(plan, superlink, Limits(seconds=120, replies=3)) as (remote, sites),
        ):
            kept = keep(remote, folder / "run", baselines=None, on=sites)
        assert kept.stored.record.done
        with Store.open(folder / "run", write=False) as store:
            found = store.server("run")
        assert found is not None
        assert digest(found[1]) == digest(expected.state)
        stored = b"".join(path.read_bytes() for path in (folder / "superlink").glob("link.db*"))
        for number in range(len(plan.sites)):
            with PersonalStore(folder / "sites" / str(number)) as own:
                personal = own.own(plan.hash, 2)
            assert digest(personal) == digest(expected.own[number])
            # FLAYER keeps a copy of what it shares too.
            own_alone = [each for name, each in personal.items() if name not in expected.state]
            secret = [each.numpy().tobytes() for each in own_alone if each.numel() > 8 and each.any()]
            assert secret
            assert not [each for each in secret if each in stored]


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with (
            pytest.raises(PartitaError, match=f"Another process listens at 127.0.0.1:{port}"),
            loopback(Plan.of(made(fedper())), DATA, tmp_path, port),
        ):
            pass


def test_no_certificate(tmp_path: Path) -> None:
    with pytest.raises(PartitaError, match=r"There is no certificate .*missing.crt"):
        SuperLink("127.0.0.1:1", tmp_path / "missing.crt")


def test_flower_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError("No module named 'flwr'")

    monkeypatch.setattr(extras, "import_module", missing)
    (tmp_path / "authority.crt").touch()
    with pytest.raises(PartitaError, match=r"pip install 'partita\[flower\]'"):
        SuperLink("127.0.0.1:1", tmp_path / "authority.crt").start_app(tmp_path / "socket")
