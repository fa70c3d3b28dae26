"""Models for other tools: ONNX graphs and programs of torch.export give the same logits, PEFT reads its adapters.

Every network of the registry, which takes minutes, only with PARTITA_ALL_GRAPHS=1 (`make test-all`).
"""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from models.test_huggingface import GROUPS, sentences, tiny
from partita import SGD, fedper, fedsim, mlp, registry, run
from partita.core.selectors import group
from partita.core.task import Task
from partita.evaluation.prediction.inputs import Inputs, Type
from partita.evaluation.prediction.model import About, ClientModel
from partita.serving.artefact import Artefact, load_exported
from partita.serving.export import export_models
from partita.serving.graphs import Format, write_graphs, write_onnx
from partita.serving.tensor_files import hash_of, write_tensors
from serving.graph_files import WHOLE, asked
from serving.test_artefact import people

# What is exported by way of torch.export warns of torch's own ways.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")

IMAGE, SMALL = (3, 32, 32), (1, 28, 28)
SHAPES: dict[str, tuple[tuple[int, ...], Type, dict[str, Any]]] = {
    "mlp": ((8,), "numbers", {}),
    "logistic": ((8,), "numbers", {}),
    "additive": ((8,), "numbers", {}),
    "split_input": ((8,), "numbers", {}),
    "linear_base": ((8,), "numbers", {}),
    "har_convnet": ((6, 128), "numbers", {}),
    "fasttext": ((20,), "indices", {"vocabulary": 50}),
    "word_transformer": ((20,), "indices", {"vocabulary": 50}),
    "recommender": ((), "indices", {"items": 50}),
    "emnist_convnet": (SMALL, "numbers", {}),
}


def model_of(name: str) -> ClientModel:
    shape, kind, facts = SHAPES.get(name, (IMAGE, "numbers", {}))
    task = Task(registry.get("models", name)(shape=shape, classes=10, **facts))
    dtype = torch.float32 if kind == "numbers" else torch.int64
    inputs = Inputs(shape, kind, dtype, below=50 if kind == "indices" else None)
    about = About("anna", 0, "fedavg", "before_local")
    return ClientModel(task.module_with(task.weights), about, inputs, [str(label) for label in range(10)])


@pytest.mark.skipif(not WHOLE, reason="part of make test-all")
@pytest.mark.parametrize("name", registry.built_in("models"))
def test_a_network_as_a_graph(name: str, tmp_path: Path) -> None:
    """Exported at a batch of 4, asked with 9; within 1e-5 of the largest logit."""
    runtime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    model = model_of(name)
    write_onnx(model, {"inputs": model.inputs.example(4)}, tmp_path / "one.onnx")
    inputs = model.inputs.example(9)
    session = runtime.InferenceSession(str(tmp_path / "one.onnx"), providers=["CPUExecutionProvider"])
    [found] = session.run(None, {"inputs": inputs.numpy()})
    expected = model.outputs(inputs).numpy()
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


def artefact_of(name: str, folder: Path) -> Artefact:
    """Three clients whose networks differ in every tensor."""
    shape, kind, facts = SHAPES.get(name, (IMAGE, "numbers", {}))
    task = Task(registry.get("models", name)(shape=shape, classes=10, **facts))
    dtype = torch.float32 if kind == "numbers" else torch.int64
    draw = torch.Generator().manual_seed(0)
    files = {"shared.safetensors": folder / "shared.safetensors"}
    write_tensors(files["shared.safetensors"], {})
    for client in "abc":
        files[f"{client}.safetensors"] = folder / f"{client}.safetensors"
        # By a factor, so that no variance becomes negative.
        own = {
            each: tensor * (0.8 + 0.4 * torch.rand(tensor.shape, generator=draw)).to(tensor)
            for each, tensor in task.weights.items()
        }
        write_tensors(files[f"{client}.safetensors"], own)
    card = {
        "clients": {
            client: {"number": at, "file": f"{client}.safetensors", "weight": None} for at, client in enumerate("abc")
        },
        "files": {each: {"sha256": hash_of(path)} for each, path in files.items()},
        "inputs": Inputs(shape, kind, dtype, below=50 if kind == "indices" else None).as_dict(),
        "kind": "classification",
        "classes": [str(label) for label in range(10)],
        "personal": list(task.weights),
        "facts": {},
        "groups": {},
        "buffers": "follow",
        "method": {"label": "local"},
        "variant": "before_local",
        "run": {"rounds": 1, "seed": 0},
    }
    return Artefact(folder, card, task.module, None)


@pytest.mark.skipif(not WHOLE, reason="part of make test-all")
@pytest.mark.parametrize("name", registry.built_in("models"))
def test_a_network_of_all_clients_as_a_graph(name: str, tmp_path: Path) -> None:
    """Every tensor is gathered by the client's place; within 1e-5 of the largest logit."""
    pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    models = artefact_of(name, tmp_path)
    about = write_graphs(models, "onnx")
    assert about["client"] == ("each row" if name == "logistic" else "one")
    ask = asked(Artefact(tmp_path, {**models.card, "graphs": {"onnx": about}}, models._network, None), "onnx")
    inputs = models.inputs.example(9)
    for place, client in enumerate(models.clients):
        found, expected = ask(inputs, place), models.model(client).outputs(inputs)
        assert found.shape == expected.shape
        assert (found - expected).abs().max() <= 1e-5 * expected.abs().max()


@pytest.mark.parametrize("form", ["onnx", "torch-export"])
def test_one_graph_holds_all_clients(form: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those for whom the guard chose the global model or a mixture."""
    if form == "onnx":
        pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    made = run(fedper(), mlp, people(("a", "b", "c")), rounds=1, folder=tmp_path / "run", on="inline")
    monkeypatch.setitem(made._loaded.__dict__, "weights", {0: 1.0, 1: 0.0, 2: 0.25})
    exported = load_exported(export_models(made._loaded, tmp_path / "models", formats=[form]))
    about = exported.card["graphs"][form]
    assert about["clients"] == ["a", "b", "c"]
    assert exported.verify() == []
    assert about["client"] == "each row"
    inputs, client = exported.inputs.example(9), torch.arange(9) % 3
    found = asked(exported, form)(inputs, client.tolist())
    for place, name in enumerate(about["clients"]):
        expected = exported.model(name).outputs(inputs)[client == place]
        assert torch.allclose(found[client == place], expected, rtol=1e-5, atol=1e-5)


def test_peft_reads_a_clients_adapters(tmp_path: Path) -> None:
    """The personal part is LoRA: its own layout, read by its own library onto the base model; and one graph for all."""
    peft = pytest.importorskip("peft", reason="needs the extra hf", exc_type=ImportError)
    algorithm = fedsim(personal=group("lora"), optimizer=SGD(0.5))
    made = run(
        algorithm, tiny(), sentences(), rounds=1, groups=GROUPS, folder=tmp_path / "run", on="inline", baselines=False
    )
    formats: list[Format] = ["peft", "torch-export"]
    if find_spec("onnxruntime"):
        formats.append("onnx")
    exported = load_exported(export_models(made._loaded, tmp_path / "models", formats=formats), network=tiny())
    assert all("lora_" in name for name in exported.personal_names)
    base = tiny().model.unload()
    adapted = peft.PeftModel.from_pretrained(
        base, tmp_path / "models" / exported.card["graphs"]["peft"]["folders"]["1"]
    )
    inputs = exported.inputs.example(3)
    model = made.model("1")
    with torch.no_grad():
        found = adapted.eval()(input_ids=inputs, attention_mask=(inputs != 0).long()).logits
    assert torch.allclose(found, model.outputs(inputs), atol=1e-6)
    assert torch.equal(exported.model("1").outputs(inputs), model.outputs(inputs))
    for form in formats[1:]:
        assert exported.card["graphs"][form]["client"] == "one"
        ask = asked(exported, form)
        for place, client in enumerate(exported.clients):
            expected = made.model(client).outputs(inputs)
            assert (ask(inputs, place) - expected).abs().max() <= 1e-5 * expected.abs().max()
