"""A client that joins a run which predicts the next word: it learns from plain texts."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from cli.test_cli import Ask, ask  # noqa: F401  (a fixture)
from partita import PartitaError, load, load_exported
from partita.api.run import keep
from partita.data.text import encode, tokenize
from partita.evaluation.prediction.inputs import Words
from partita.experiment.settings.files import make
from partita.serving.onboard import onboard
from partita.serving.questions import Questions

LINES = ("the cat sat on the mat", "the dog sat on the log", "a cat and a dog", "the mat and the log")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("words")
    rows = [f"{line},{who}" for who in ("anna", "ben") for line in LINES * 3]
    (folder / "lines.csv").write_text("text,who\n" + "\n".join(rows) + "\n")
    (folder / "new.txt").write_text("\n".join(["the log sat on the cat"] * 10) + "\n")
    table = {"name": "csv_text", "path": str(folder / "lines.csv"), "label_column": None, "client_column": "who"}
    data = {**table, "most_duplicates": 1, "length": 8}
    experiment = make({"data": data, "model": "word_transformer", "algorithm": "fedper", "rounds": 1})
    keep(experiment, folder / "mine", on="inline", baselines=None)
    return folder


def test_texts_become_what_was_trained_on() -> None:
    """By hand, and as the data make it."""
    texts = ["a b", "b c a b", "", "a z"]
    samples = Words(["a", "b", "c"]).successors(texts, 3)
    assert samples.inputs.tolist() == [[2, 4, 5], [2, 5, 6], [2, 0, 0], [2, 4, 1]]
    assert samples.targets.tolist() == [[4, 5, 3], [5, 6, 4], [3, 0, 0], [4, 1, 3]]
    known = ["a b", "b a b b", ""]
    inputs, targets, _ = encode(tokenize(known), torch.zeros(3), "next_word", torch.arange(3).numpy(), None, 3)
    again = Words(["b", "a"]).successors(known, 3)
    assert torch.equal(again.inputs, inputs)
    assert torch.equal(again.targets, targets)


def test_a_client_joins_and_predicts_words(place: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.chdir(place)
    given = ("onboard", "mine", "--data", "new.txt", "--name", "dora", "--models", "dora", "--test", "new.txt")
    before = json.loads(ask(*given, "--epochs", "0", "--json").out)
    answer = ask(*given, "--lr", "1", "--epochs", "20", "--force", "--json")
    assert answer.code == 0, answer.err
    told = json.loads(answer.out)
    assert told["samples"] == 10
    assert told["score"] > before["score"], "it learned its one sentence"
    models = load_exported("dora")
    assert models.personal_names == {"decoder.bias"}, "what the method keeps personal, and nothing else"
    [label], _ = models.model("dora").predict(["the log sat"])
    assert label in models.classes("dora")


def test_numbers_are_no_texts(place: Path) -> None:
    with pytest.raises(PartitaError, match="learned from texts"):
        onboard(load(place / "mine"), "dora", Questions(np.array([[1, 2]]), ["0"], ["1"]))
