"""Algorithms outside of the package: by module and function, and by entry point."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from partita import registry
from partita.algorithms.fedavg import fedavg
from partita.cli.main import app
from partita.core.algorithm import Algorithm
from partita.errors import PartitaError
from partita.experiment.result import Result
from partita.experiment.simulate import simulate
from toys import small_federation, small_network

pytestmark = pytest.mark.usefixtures("own_folder")

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugin"
SOURCE = EXAMPLE / "src"
BY_MODULE = "partita_example.sparse_fedavg:sparse_fedavg"


def declared() -> dict[str, str]:
    """The entry points that the example's own file declares."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    points: dict[str, str] = project["entry-points"]["partita.algorithms"]
    return points


def install(folder: Path, points: Mapping[str, str]) -> None:
    """What an installation leaves of a distribution with these entry points, without its code."""
    information = folder / "partita_example-0.1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: partita-example\nVersion: 0.1.0\n")
    lines = [f"{name} = {target}" for name, target in points.items()]
    (information / "entry_points.txt").write_text("\n".join(["[partita.algorithms]", *lines, ""]))


def ask(arguments: Sequence[str], path: Sequence[Path]) -> dict[str, object]:
    """The command line in a process of its own, with folders on its path."""
    done = subprocess.run(
        [sys.executable, "-c", "from partita.cli.main import main; main()", *arguments, "--json"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    result: dict[str, object] = json.loads(done.stdout)
    return result


def run(algorithm: str, *path: Path) -> dict[str, object]:
    settings = ("algorithm.fraction=0.2", "rounds=1", "data.split=iid", "data.split.clients=3")
    return ask(["run", f"algorithm={algorithm}", *settings, "--no-baselines"], path)


def resumed(folder: str, *path: Path, trust: bool = True) -> dict[str, object]:
    """It is made again from its record."""
    return ask(["resume", folder, *(["--trust"] if trust else [])], path)


def test_a_run_by_module_and_function() -> None:
    made = run(BY_MODULE, SOURCE)
    assert made["label"] == "sparse_fedavg"
    assert resumed(str(made["folder"]), SOURCE)["label"] == "sparse_fedavg"


def test_a_run_by_entry_point(tmp_path: Path) -> None:
    install(tmp_path, declared())
    made = run("sparse_fedavg", tmp_path, SOURCE)
    assert made["label"] == "sparse_fedavg"
    assert resumed(str(made["folder"]), tmp_path, SOURCE, trust=False)["label"] == "sparse_fedavg", "it is installed"


def listed() -> dict[str, str]:
    result = CliRunner().invoke(app, ["list", "algorithms", "--json"], catch_exceptions=False)
    found: dict[str, str] = json.loads(result.stdout)
    return found


def test_an_entry_point_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "sparse_fedavg" not in listed()
    install(tmp_path, declared())
    monkeypatch.syspath_prepend(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    assert listed()["sparse_fedavg"].startswith("Train the whole network locally; of each tensor upload")
    assert set(listed()) > {"fedavg", "flayer"}


def test_a_broken_entry_point_leaves_the_others_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, {"broken": "partita_nowhere:broken"})
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PartitaError, match="Cannot load 'broken' of 'partita_nowhere'"):
        registry.get("algorithms", "broken")
    assert listed()["fedavg"] == "Train the whole network locally, average it."


def test_an_entry_point_does_not_replace_what_is_built_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, {"fedavg": BY_MODULE})
    monkeypatch.syspath_prepend(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    assert registry.get("algorithms", "fedavg") is fedavg


@pytest.fixture
def sparse_fedavg(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Algorithm]:
    monkeypatch.syspath_prepend(SOURCE)
    return registry.get("algorithms", registry.Trusted(BY_MODULE))


def result(algorithm: Algorithm) -> Result:
    return simulate(algorithm, small_network(), small_federation(), rounds=2)


def test_the_example_sends_less(sparse_fedavg: Callable[..., Algorithm]) -> None:
    sparse, dense = result(sparse_fedavg(fraction=0.25)), result(fedavg())
    assert all(few.up < all_.up / 2 for few, all_ in zip(sparse.traffic, dense.traffic, strict=True))
    assert {each.down for each in sparse.traffic} == {each.down for each in dense.traffic}


def test_the_example_is_fedavg_when_it_sends_everything(sparse_fedavg: Callable[..., Algorithm]) -> None:
    sparse, dense = result(sparse_fedavg(fraction=1.0)).network_weights(), result(fedavg()).network_weights()
    assert all(torch.equal(sparse[name], dense[name]) for name in dense)


@pytest.mark.parametrize("fraction", [0.0, 1.5])
def test_the_example_refuses_what_it_cannot_do(sparse_fedavg: Callable[..., Algorithm], fraction: float) -> None:
    with pytest.raises(PartitaError, match="above 0 and at most 1"):
        sparse_fedavg(fraction=fraction)
