"""Exported models: whole or not there, undamaged or refused, and the same without the run.

One file, since all damage is done to the same exported folder.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import partita
from partita import PartitaError, fedavg, fedper, from_clients, load, load_exported, mlp, run
from partita.api.kept import Run
from partita.data.federation import Federation
from partita.evaluation.prediction.inputs import Words
from partita.serving.card_files import CARD
from partita.serving.export import export_models
from partita.serving.files import file_names

ODD = ("anna", "../ben", "Anna", "=1+1", "d" * 300, "..", " é|<b>")


def people(names: tuple[str, ...] = ODD, **options: Any) -> Federation:
    """Clients whose labels depend on the signs of their inputs, each in another way; bytes, as images have."""
    draw = np.random.default_rng(0)

    def one(place: int) -> tuple[Any, Any]:
        inputs = draw.integers(0, 256, size=(40, 1, 5, 5), dtype=np.uint8)
        return inputs, (inputs[:, 0, place % 5, 0] > 127).astype(int) + (inputs[:, 0, 1, 1] > 127)

    return from_clients({name: one(place) for place, name in enumerate(names)}, name="people", classes=3, **options)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """With baselines and guard."""
    data = people(standardize=True)
    return run(fedper(epochs=2), mlp, data, rounds=4, folder=tmp_path_factory.mktemp("runs") / "mine", on="inline")


@pytest.fixture(scope="module")
def folder(kept: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_models(kept._loaded, tmp_path_factory.mktemp("exported") / "models", merged=True, licence="CC0-1.0")


@pytest.fixture
def copied(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def test_what_the_guard_chose_is_what_answers(kept: Run, folder: Path) -> None:
    """The stored scores are those of the models, guarded and not."""
    exported, loaded = load_exported(folder), kept._loaded
    guard = kept.stored.analyses["guard"]
    for number, weight, guarded, personal in zip(
        guard["clients"], guard["chosen"], guard["guarded"], guard["personal"], strict=True
    ):
        test = loaded.population[number].test
        for models in (kept, exported):
            model = models.model(number)
            assert (model.about.weight, model.guarded) == (weight, weight < 1)
            assert (model.common is not None) == (0 < weight < 1)
            for asked, score in ((model, guarded), (models.model(number, guarded=False), personal)):
                right = asked.outputs(test.inputs).argmax(1) == test.targets
                assert float(right.double().mean()) == pytest.approx(score, abs=1e-12)
        assert exported.weight(number) == weight


@pytest.mark.parametrize("weight", [0.0, 0.25, 1.0])
def test_the_guard_is_said_and_done(kept: Run, tmp_path: Path, weight: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it chose; a mixture is one of probabilities."""
    loaded = load(kept.folder, experiment=kept._experiment)
    monkeypatch.setitem(loaded.__dict__, "weights", {0: weight})
    export_models(loaded, tmp_path / "models", clients=[0])
    exported = load_exported(tmp_path / "models")
    inputs = loaded.population[0].test.inputs
    own, common = (
        model.outputs(inputs).softmax(1) for model in (loaded.model(0, guarded=False), loaded.global_model())
    )
    for model in (loaded.model(0), exported.model(0)):
        assert torch.allclose(model.outputs(inputs).softmax(1), weight * own + (1 - weight) * common, atol=1e-6)
        said = {0.0: "the global model instead", 0.25: "mixes 0.25", 1.0: "kept it"}[weight]
        assert said in str(model.about)
    assert torch.equal(exported.global_model().outputs(inputs).softmax(1), common)


def test_the_shared_part_is_there_once(kept: Run, folder: Path) -> None:
    exported = load_exported(folder)
    assert exported.personal_names == {"head.weight", "head.bias"}
    assert exported.shared.keys() == {"layer1.weight", "layer1.bias"}
    assert exported.clients == list(ODD)
    separation = exported.separation
    assert separation is not None
    inputs = exported.inputs.example(len(ODD))
    heads = [separation.head(exported.personal(client)) for client in ODD]
    together = separation.outputs(separation.features(inputs), heads)
    for row, client, answer in zip(inputs, ODD, together, strict=True):
        assert torch.allclose(answer, exported.outputs(client, row[None])[0], atol=1e-6)
        assert torch.allclose(answer, exported.model(client, guarded=False)(row[None])[0], atol=1e-6)


def test_heads_of_different_sizes_share_a_body(tmp_path: Path) -> None:
    draw = np.random.default_rng(1)

    def one(labels: int) -> tuple[Any, Any]:
        targets = np.arange(30) % labels
        return draw.normal(size=(30, 4)) + targets[:, None], targets

    data = from_clients({"two": one(2), "four": one(4)}, classes=4, own_labels=True)
    made = run(fedper(), mlp, data, rounds=1, folder=tmp_path / "run", on="inline", baselines=False)
    exported = load_exported(export_models(made._loaded, tmp_path / "models"))
    assert [len(exported.model(client).classes) for client in exported.clients] == [2, 4]
    separation, inputs = exported.separation, torch.randn(2, 4)
    assert separation is not None
    heads = [separation.head(exported.personal(client)) for client in exported.clients]
    for client, row, answer in zip(
        exported.clients, inputs, separation.outputs(separation.features(inputs), heads), strict=True
    ):
        assert torch.allclose(answer, made.model(client)(row[None])[0], atol=1e-6)
        assert set(exported.model(client).predict(row[None]).labels) <= set(exported.classes(client))


def test_a_whole_personal_network_is_not_separated(tmp_path: Path) -> None:
    made = run(
        partita.ditto(), mlp, people(("a", "b")), rounds=1, folder=tmp_path / "run", on="inline", baselines=False
    )
    exported = load_exported(export_models(made._loaded, tmp_path / "models"))
    assert exported.separation is None
    inputs = exported.inputs.example()
    assert torch.equal(exported.outputs("a", inputs), made.model("a").outputs(inputs))


ALONE = """
import json, sys
from pathlib import Path
import numpy as np, partita
models = partita.load_exported(sys.argv[1])
found = {}
for number, name in enumerate(models.clients):
    test = np.load(Path(sys.argv[2], f"{number}.npz"))
    labels, probabilities = models.model(name).predict(test["x"])
    found[name] = sum(int(label) == right for label, right in zip(labels, test["y"].tolist())) / len(labels)
assert "partita.runs.store" not in sys.modules or not Path(sys.argv[3]).exists()
print(json.dumps(found))
"""


def test_the_stored_score_is_reproduced_where_the_run_cannot_be_seen(kept: Run, copied: Path, tmp_path: Path) -> None:
    """By another process, from the exported files and the test samples as the data hold them."""
    data = kept._loaded.experiment.data
    for number in range(len(data)):
        test = data[number].test
        np.savez(tmp_path / f"{number}.npz", x=test.stored.numpy(), y=test.targets.numpy())
    hidden = kept.folder.with_name("hidden")
    kept.folder.rename(hidden)
    try:
        done = subprocess.run(
            [sys.executable, "-c", ALONE, str(copied), str(tmp_path), str(kept.folder)],
            capture_output=True, text=True, timeout=120, check=True, cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(partita.__file__).parents[1])},
        )  # fmt: skip
    finally:
        hidden.rename(kept.folder)
    card = json.loads((copied / CARD).read_text())
    expected = {name: entry["score"]["guarded"] for name, entry in card["clients"].items()}
    assert json.loads(done.stdout) == pytest.approx(expected, abs=1e-12)


def test_the_card_says_what_it_is(kept: Run, folder: Path) -> None:
    card, text = json.loads((folder / CARD).read_text()), (folder / "README.md").read_text()
    assert card["licence"] == "CC0-1.0"
    assert card["scores"]["test"]["macro"] == kept.score().macro
    assert [each["with"] for each in card["scores"]["compared"]] == ["floor", "local", "global", "global + fine-tune"]
    for told in ("fedper on people", "CC0-1.0", "1 x 5 x 5 bytes", "3 classes: 0, 1, 2", "| floor |"):
        assert told in text
    assert "<b>" not in text
    merged = folder / "merged" / "anna.safetensors"
    assert merged.stat().st_size > (folder / "clients" / "anna.safetensors").stat().st_size


def test_names_of_files(folder: Path) -> None:
    names = file_names(ODD)
    assert len({name.casefold() for name in names.values()}) == len(ODD)
    assert all("/" not in name and not name.startswith(".") and len(name) < 150 for name in names.values())
    assert len(list((folder / "clients").iterdir())) == len(ODD)
    assert sorted(path.name for path in folder.parent.iterdir()) == ["models"], "nothing is left beside"


def _other_bits(place: Path) -> None:
    content = bytearray((place / "shared.safetensors").read_bytes())
    content[-1] ^= 1
    (place / "shared.safetensors").write_bytes(content)


def _card(**changes: Any) -> Callable[[Path], None]:
    def change(place: Path) -> None:
        card = json.loads((place / CARD).read_text())
        (place / CARD).write_text(json.dumps({**card, **changes}))

    return change


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_other_bits, "its hash differs"),
        (lambda place: (place / "clients" / "anna.safetensors").unlink(), "lacks the file clients/anna"),
        (lambda place: (place / CARD).write_text("{"), "cannot be read"),
        (lambda place: (place / CARD).unlink(), "partita export RUN --models"),
        (_card(format=2), "format 2"),
        (_card(network={"name": "os:system"}), "If you trust it, .* network=system.*--network os:system"),
        (_card(network={"name": "mlpp"}), "mlp"),
        (_card(inputs={}), "damaged"),
        (
            _card(clients={"anna": {"number": 0, "file": "../../secret", "weight": None, "score": None}}),
            "outside of the folder",
        ),
        (_card(clients={}), "damaged: see clients"),
        (_card(clients={"anna": {"number": 0, "file": None, "weight": None, "score": {"test": "1"}}}), "see clients"),
        (_card(run={"rounds": 1, "seed": True, "started": ""}), "damaged: see run"),
        (_card(classes=None), "damaged: see classes"),
    ],
)
def test_damage_is_refused(copied: Path, damage: Callable[[Path], None], said: str) -> None:
    damage(copied)
    with pytest.raises(PartitaError, match=said):
        load_exported(copied).model("anna")


def test_nothing_is_overwritten_unless_asked(kept: Run, copied: Path, tmp_path: Path) -> None:
    with pytest.raises(PartitaError, match="--force"):
        export_models(kept._loaded, copied)
    export_models(kept._loaded, copied, clients=["anna"], force=True)
    assert load_exported(copied).clients == ["anna"]
    other = tmp_path / "mine"
    other.mkdir()
    (other / "thesis.txt").write_text("irreplaceable")
    with pytest.raises(PartitaError, match="does not hold exported models"):
        export_models(kept._loaded, other, force=True)
    assert (other / "thesis.txt").read_text() == "irreplaceable"


def test_what_fails_midway_leaves_nothing(kept: Run, copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()}

    def full(path: Path, tensors: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("partita.serving.export.write_tensors", full)
    with pytest.raises(PartitaError, match="No space left"):
        export_models(kept._loaded, copied, force=True)
    assert {path: path.read_bytes() for path in copied.rglob("*") if path.is_file()} == before
    assert [path.name for path in copied.parent.iterdir() if path.name.startswith(".")] == []


class Own(nn.Module):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(25, classes)

    def forward(self, inputs: Tensor) -> Tensor:
        answer: Tensor = self.head(inputs.flatten(1))
        return answer


class Local(Own):
    """Whose name no other process would find."""

    __qualname__ = "hidden.Local"


def test_a_network_of_ones_own_is_given(tmp_path: Path) -> None:
    data = people(("a", "b"))
    made = run(fedavg(), Local, data, rounds=1, folder=tmp_path / "run", on="inline", baselines=False)
    export_models(made._loaded, tmp_path / "models")
    with pytest.raises(PartitaError, match="network=Local"):
        load_exported(tmp_path / "models")
    assert 'load_exported("THIS FOLDER", network=Local)' in (tmp_path / "models" / "README.md").read_text()
    again = load_exported(tmp_path / "models", network=Local)
    inputs = again.inputs.example()
    assert torch.equal(again.model("a").outputs(inputs), made.model("a").outputs(inputs))


def test_a_run_that_is_not_done_and_a_folder_that_is_no_run(kept: Run, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(PartitaError, match="load_exported"):
        load(folder)
    with pytest.raises(PartitaError):
        load(tmp_path)
    with pytest.raises(PartitaError, match="Did you mean 'anna'"):
        load_exported(folder).model("anne")


def test_inputs_are_checked(kept: Run) -> None:
    model = kept.model("anna")
    assert model.predict(np.zeros((2, 25), dtype=np.uint8)).labels == model.predict(np.zeros((2, 5, 5))).labels
    for wrong, said in (
        (np.zeros((2, 8)), "1 x 5 x 5 bytes"),
        (np.full((1, 1, 5, 5), np.nan), "not a finite number"),
        (np.full((1, 1, 5, 5), 300), "from 0 to 255"),
        (["a text"], "not texts"),
        (np.array([None]), "not values"),
    ):
        with pytest.raises(PartitaError, match=said):
            model.predict(wrong)
    labels, probabilities = model.predict(np.zeros((0, 1, 5, 5)))
    assert probabilities is not None
    assert (labels, probabilities.shape) == ([], (0, 3))


def test_texts_become_the_numbers_that_were_trained_on(tmp_path: Path) -> None:
    texts = ["good day", "bad day sir", "good good night", "bad night", "so so", "good", "bad", "fine day", "x y", "z"]
    rows = {name: (texts, [0, 1, 0, 1, 0, 0, 1, 0, 1, 1]) for name in ("a", "b")}
    data = from_clients(rows, vocabulary=4, length=3, most_duplicates=1.0)
    made = run(fedper(), partita.fasttext, data, rounds=1, folder=tmp_path / "run", on="inline", baselines=False)
    exported = load_exported(export_models(made._loaded, tmp_path / "models"))
    for models in (made.model("a"), exported.model("a")):
        assert torch.equal(models.inputs(texts), data.samples.stored[: len(texts)])
        assert len(models.predict(["good unheard of words"]).labels) == 1
    next_words = Words(["a", "b"]).encode(["a b a b", "b", ""], 3, next_word=True)
    assert next_words.tolist() == [[2, 4, 5], [2, 5, 0], [2, 0, 0]]
