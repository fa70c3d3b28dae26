"""Every example runs as it stands, in an empty folder."""

import json
import runpy
from importlib.util import find_spec
from pathlib import Path

import pytest

from partita.data.download import find

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NEEDS = {"huggingface_lora": ("transformers", "peft"), "federation": ("flwr", "cryptography")}
SLOW = ("federation", "hapt_per_person", "huggingface_lora")
SAYS = {
    "own_data_and_network": "better than FedAvg for",
    "new_algorithm": "near_heads",
    "huggingface_lora": "test accuracy",
    "recommender": "fedsim: RMSE",
    "hapt_per_person": "fedper:",
    "from_pfllib": "fedala:",
    "federation": "each site kept its own head",
}


def scripts() -> list[object]:
    found = sorted(EXAMPLES.glob("*.py"))
    return [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in SLOW)) for path in found]


@pytest.mark.parametrize("path", scripts())
@pytest.mark.usefixtures("own_folder")
def test_an_example_runs(path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    if missing := [name for name in NEEDS.get(path.stem, ()) if not find_spec(name)]:
        pytest.skip(f"needs {', '.join(missing)}")
    monkeypatch.setenv("PARTITA_WORKERS", "1")
    if path.stem == "hapt_per_person":
        if not find("hapt", "hapt.npz"):
            pytest.skip("the data are not here")
        runpy.run_path(str(path))["main"](rounds=1)
    else:
        runpy.run_path(str(path), run_name="__main__")
    assert SAYS[path.stem] in capfd.readouterr().out


def test_every_example_is_listed() -> None:
    page = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    for path in EXAMPLES.iterdir():
        assert f"`{path.name}" in page or path.name == "README.md", f"{path.name} is not in examples/README.md"


def test_without_the_pull_the_new_algorithm_is_fedper() -> None:
    import torch

    from partita import SGD, digits, dirichlet, federate, fedper, mlp, simulate

    near_heads = runpy.run_path(str(EXAMPLES / "new_algorithm.py"))["near_heads"]
    data = federate(digits(), dirichlet(clients=4, alpha=0.5))
    new, old = (
        simulate(method, mlp, data, rounds=2, on="inline")
        for method in (near_heads(strength=0.0), fedper(epochs=1, optimizer=SGD(0.1)))
    )
    assert new.score() == old.score()
    for client in range(4):
        inputs = data[client].test.inputs[:5]
        assert torch.equal(new.model(client)(inputs), old.model(client)(inputs))


def test_the_notebook_is_executed_and_runs(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cells have outputs, none of them an error, and run again in one namespace."""
    if not find_spec("matplotlib"):
        pytest.skip("needs matplotlib")
    import matplotlib

    matplotlib.use("Agg")
    monkeypatch.setenv("PARTITA_WORKERS", "1")
    book = json.loads((EXAMPLES / "first_steps.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    kinds = [output["output_type"] for cell in cells for output in cell["outputs"]]
    assert "error" not in kinds
    assert any("image/png" in output.get("data", {}) for cell in cells for output in cell["outputs"])
    namespace: dict[str, object] = {"__name__": "notebook"}
    for cell in cells:
        exec(compile("".join(cell["source"]), "first_steps.ipynb", "exec"), namespace)
