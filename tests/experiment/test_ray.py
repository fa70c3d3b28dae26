"""Workers on a Ray cluster: the same bits, also where a worker or a whole node is lost.

The cluster has two nodes on this machine, with one worker each.
"""

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bits import bits
from experiment.small import DATA, run
from experiment.test_deaths import dying
from laws.methods import ALGORITHMS
from partita import extras
from partita.core.samples import Samples
from partita.errors import PartitaError
from partita.experiment.events import Event
from partita.experiment.executor import executor_of
from partita.experiment.executors.ray import ENVIRONMENT, Ray, ray
from toys import small_network


@pytest.mark.parametrize(
    ("text", "value"), [("ray", Ray()), ("ray:10.0.0.1:6379", Ray("10.0.0.1:6379")), ("ray:auto", Ray("auto"))]
)
def test_a_name_means_a_cluster(text: str, value: Ray) -> None:
    assert executor_of(text) == value == ray(address=value.address)


@pytest.mark.parametrize(
    ("text", "words"), [("ray:", "not the address"), ("ray:6379", "6379 is not the address of a Ray")]
)
def test_what_is_no_address(text: str, words: str) -> None:
    with pytest.raises(PartitaError, match=words):
        executor_of(text)


def test_without_ray_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(f"No module named {name!r}")

    for name, value in {**ENVIRONMENT, "RAY_AUTH_TOKEN": "none"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(extras, "import_module", missing)
    with pytest.raises(PartitaError, match=r"pip install 'partita\[ray\]'"):
        run(ALGORITHMS["fedper"], "ray")


def test_only_the_cpu_is_used() -> None:
    setup: Any = SimpleNamespace(experiment=SimpleNamespace(device="cuda"))
    with pytest.raises(PartitaError, match="says device = 'cuda'"), Ray().open(setup):
        pass


IGNORED = ("DeprecationWarning", "FutureWarning", "ResourceWarning")
"""Of Ray itself."""
SINGLE = replace(DATA, samples=Samples(DATA.samples.inputs.float(), DATA.samples.targets))
OPTIONS: dict[str, Any] = {"model": small_network().float(), "data": SINGLE}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one CPU each, and a connection to them that all tests share: to start one takes seconds."""
    patch = pytest.MonkeyPatch()
    # Ray reads them when it is imported.
    for name, value in {**ENVIRONMENT, "RAY_AUTH_TOKEN": secrets.token_hex(32)}.items():
        patch.setenv(name, value)
    patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    library = pytest.importorskip("ray", reason="ray is not installed")
    made = pytest.importorskip("ray.cluster_utils").Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        made.add_node(num_cpus=1)
        library.init(address=made.address, log_to_driver=False, logging_level="ERROR")
        yield made
    finally:
        library.shutdown()
        made.shutdown()
        patch.undo()


longer = pytest.mark.skipif("PARTITA_RAY" not in os.environ, reason="make test-all runs it")
"""One test of the cluster is enough in the short run: that of a lost node, which compares bits too."""
pytestmark = pytest.mark.filterwarnings(*(f"ignore::{kind}" for kind in IGNORED))


@longer
def test_workers_of_a_cluster_give_the_same_bits(cluster: Any) -> None:
    expected = bits(run(ALGORITHMS["flayer official"], "inline", **OPTIONS))
    assert bits(run(ALGORITHMS["flayer official"], Ray(cluster.address), **OPTIONS)) == expected


@longer
def test_the_work_of_one_who_dies_is_done_by_another(cluster: Any, tmp_path: Path) -> None:
    dies = partial(dying, place=tmp_path, times=1, who=2)
    found = bits(run(ALGORITHMS["fedrep"], Ray(cluster.address), run_phase=dies, **OPTIONS))
    assert (tmp_path / "deaths").read_text() == "x"
    assert found == bits(run(ALGORITHMS["fedrep"], "inline", **OPTIONS))


@longer
def test_an_error_of_a_worker_is_the_users(cluster: Any) -> None:
    def fails(*_: object) -> Any:
        raise PartitaError("this loss is not a number")

    with pytest.raises(PartitaError, match="this loss is not a number"):
        run(ALGORITHMS["fedper"], Ray(cluster.address), run_phase=fails, **OPTIONS)


@longer
def test_who_has_no_token_stays_out(cluster: Any) -> None:
    program = f"""
from partita import digits, fedper, mlp, simulate
simulate(fedper(), mlp, digits(), rounds=1, on="ray:{cluster.address}")
"""
    other = {**os.environ, "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    ended = subprocess.run([sys.executable, "-c", program], env=other, capture_output=True, text=True, timeout=300)
    assert ended.returncode
    assert "PartitaError: Cannot connect to the Ray cluster" in ended.stderr


def test_the_clients_of_a_lost_node_are_done_by_others(cluster: Any) -> None:
    """The last test: one node is left."""
    [node] = cluster.worker_nodes

    def lose(event: Event) -> None:
        if node in cluster.worker_nodes:
            cluster.remove_node(node, allow_graceful=False)

    found = bits(run(ALGORITHMS["ditto"], Ray(cluster.address), on_event=lose, rounds=4, **OPTIONS))
    assert found == bits(run(ALGORITHMS["ditto"], "inline", rounds=4, **OPTIONS))
