"""One graph for all clients: whatever the personal part is, a client's place gives the logits of its model.

Some here; every part and every method, as a program of torch.export and as ONNX, with PARTITA_ALL_GRAPHS=1 (`make
test-all`). That the module behind the graph is right for every method is a law (`laws/test_client_models.py`).
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import partita
from laws.methods import ALGORITHMS
from partita import HEAD, NORM, PartitaError, fedper, fedsim, from_clients, last_blocks, load_exported, mlp, run, where
from partita.core.algorithm import Algorithm
from partita.core.batching import Batching
from partita.core.selectors import INPUT, group
from partita.data.federation import Federation
from partita.models._adapters import with_adapters
from partita.serving.artefact import Artefact
from partita.serving.export import export_models
from partita.serving.graphs import Format
from serving.graph_files import WHOLE, asked
from serving.test_artefact import people
from toys import small_federation, small_network

# What is exported by way of torch.export warns of torch's own ways.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
FORMS = ["torch-export", "onnx"]


class Convolutions(nn.Module):
    """With a norm that keeps statistics."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 3, 3)
        self.norm1 = nn.BatchNorm2d(3)
        self.conv2 = nn.Conv2d(3, 4, 2)
        self.head = nn.Linear(16, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = self.conv2(self.norm1(self.conv1(inputs)).relu()).relu()
        answer: Tensor = self.head(hidden.flatten(1))
        return answer


def adapted(classes: int) -> nn.Module:
    return with_adapters(Convolutions(classes), ("conv1", "conv2"))


def texts() -> Federation:
    words = ["good day", "bad day sir", "good good night", "bad night", "so so", "good", "bad", "fine day", "x y", "z"]
    rows = {name: (words, [0, 1, 0, 1, 0, 0, 1, 0, 1, 1]) for name in ("a", "b")}
    return from_clients(rows, vocabulary=4, length=3, most_duplicates=1.0)


PARTS: dict[str, tuple[Algorithm, Any]] = {
    "several layers": (fedsim(personal=last_blocks(2)), Convolutions),
    "a convolution": (fedsim(personal=where("conv2*")), Convolutions),
    "a norm with statistics": (fedsim(personal=NORM), Convolutions),
    "the input layer": (fedsim(personal=INPUT), Convolutions),
    "a norm and the head": (fedsim(personal=NORM | HEAD), Convolutions),
    "adapters": (fedsim(personal=group("adapter")), adapted),
    "the whole network": (partita.ditto(), Convolutions),
    "an embedding": (fedsim(personal=group("embedding")), partita.fasttext),
}


def exported(place: Path, algorithm: Algorithm, network: Any, data: Federation, form: Any, **options: Any) -> Artefact:
    made = run(algorithm, network, data, rounds=1, folder=place / "run", on="inline", baselines=False, **options)
    written = export_models(made._loaded, place / "models", formats=[form])
    return load_exported(written, network=network, algorithm=algorithm)


def need(form: str, *, often: bool) -> None:
    """Skip what cannot be exported here, or is only tried where time does not matter."""
    if form == "onnx":
        pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    if not (often or WHOLE):
        pytest.skip("part of make test-all")


def need_same(models: Artefact, form: str, bound: float = 1e-5) -> None:
    """For every client, in one batch of another size than the graph was made with."""
    about, inputs = models.card["graphs"][form], models.inputs.example(7)
    ask = asked(models, form)
    assert about["clients"] == models.clients
    for place, client in enumerate(about["clients"]):
        found, expected = ask(inputs, place), models.model(client).outputs(inputs)
        assert found.shape == expected.shape
        assert (found - expected).abs().max() <= bound * expected.abs().max(), client


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("part", PARTS)
def test_any_personal_part_of_one_shape(part: str, form: str, tmp_path: Path) -> None:
    need(form, often=part in ("adapters", "a norm and the head") or (form, part) == ("torch-export", "an embedding"))
    algorithm, network = PARTS[part]
    data = texts() if part == "an embedding" else people(("a", "b", "c"))
    models = exported(tmp_path, algorithm, network, data, form)
    assert models.personal_names
    assert models.card["graphs"][form]["client"] == "one"
    assert models.verify() == []
    need_same(models, form)
    first, second = (models.model(client).outputs(models.inputs.example(7)) for client in models.clients[:2])
    assert not torch.allclose(first, second, atol=1e-5), "clients differ, so that a wrong place would show"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_method_with_a_personal_part_is_one_graph(name: str, form: str, tmp_path: Path) -> None:
    need(form, often=form == "torch-export" and name in ("fedbabu", "fedcp", "gpfl", "fedavg"))
    algorithm, options = ALGORITHMS[name], {"batching": Batching(size=3)}
    if name == "fedcp":
        with pytest.raises(PartitaError, match="draws random numbers"):
            exported(tmp_path, algorithm, small_network(), small_federation((8, 6)), form, **options)
        tmp_path, algorithm = tmp_path / "still", partita.fedcp(noise_in_use=False)
    models = exported(tmp_path, algorithm, small_network(), small_federation((8, 6, 6)), form, **options)
    about = models.card["graphs"][form]
    assert (about["client"] is None) == (not models.personal_names)
    need_same(models, form)


@pytest.mark.parametrize("form", FORMS)
def test_global_networks_may_differ_too(form: Format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard mixes in a global network in which each client has statistics of its own."""
    need(form, often=form == "torch-export")
    made = run(
        fedper(),
        Convolutions,
        people(("a", "b", "c")),
        rounds=1,
        folder=tmp_path / "run",
        on="inline",
        buffers="local",
        baselines="quick",
    )
    monkeypatch.setitem(made._loaded.__dict__, "weights", {0: 1.0, 1: 0.0, 2: 0.25})
    models = load_exported(export_models(made._loaded, tmp_path / "models", formats=[form]), network=Convolutions)
    assert [models.about(client).guarded for client in models.clients] == [False, True, True]
    assert models._own("b").keys() & {"guard/norm1.running_mean"}
    need_same(models, form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("algorithm", [fedper(), partita.ditto()])
def test_a_place_that_nobody_has_is_an_error(algorithm: Algorithm, form: str, tmp_path: Path) -> None:
    """Also a negative one, which both would count from the end; and several for a graph that takes one."""
    need(form, often=form == "onnx")
    models = exported(tmp_path, algorithm, mlp, people(("a", "b")), form)
    ask, inputs = asked(models, form), models.inputs.example(2)
    assert ask(inputs, 1).shape == (2, 3)
    for wrong in (2, -1, -3, 10**9):
        with pytest.raises(Exception, match=r"(?i)out of (range|data bounds|bounds)|index"):
            ask(inputs, wrong)
    if models.card["graphs"][form]["client"] == "one":
        with pytest.raises(Exception, match=r"(?i)dimension|shape|guard|expected"):
            ask(inputs, [0, 1])


def test_what_does_not_fit_into_one_file_is_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partita.serving.together.MOST_BYTES", 100)
    models = exported(tmp_path, partita.ditto(), mlp, people(("a", "b")), "torch-export")
    about = models.card["graphs"]["torch-export"]
    assert about["files"].keys() == {"a", "b"}
    assert "an ONNX file holds 2 GB" in about["why"]
    assert f"has a file for each client: {about['why']}." in (tmp_path / "models" / "README.md").read_text()


def test_different_shapes_are_several_files(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    rows = {name: (draw.normal(size=(30, 4)), np.arange(30) % labels) for name, labels in (("two", 2), ("four", 4))}
    data = from_clients(rows, classes=4, own_labels=True)
    models = exported(tmp_path, fedper(), mlp, data, "torch-export")
    about = models.card["graphs"]["torch-export"]
    assert about["why"] == "clients have different networks"
    inputs = models.inputs.example(3)
    for client, file in about["files"].items():
        found = torch.export.load(tmp_path / "models" / file).module()(inputs)
        assert torch.allclose(found, models.model(client).outputs(inputs), atol=1e-6)
