"""Models whose network is a class of one's own: asked by command and over HTTP, if it is said where the class is."""

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import partita
from cli.test_cli import Ask, ask as ask  # a fixture
from partita import PartitaError, fedper, from_clients, load_exported, run
from partita.web.app import application
from partita.web.catalogue import Catalogue, find_entries
from partita.web.limits import Limits
from web.asking import asking

SOURCE = """
from torch import nn

class Net(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(shape[0], 4), nn.ReLU()), nn.Linear(4, classes)

    def forward(self, inputs):
        return self.head(self.body(inputs))
"""
ROWS = np.random.default_rng(0).normal(size=(20, 3))
NAME = "net_of_mine"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with the class, a run and its models; nobody has imported the class yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path(f"{NAME}.py").write_text(SOURCE)
    rows = {name: ROWS + place for place, name in enumerate(("anna", "ben"))}
    data = from_clients({name: (x, (x[:, 0] > x[:, 1]).astype(int)) for name, x in rows.items()})
    net = import_module(NAME).Net
    # As if it stood in the script itself, which nobody can import.
    net.__module__ = "__main__"
    run(fedper(), net, data, rounds=1, folder="mine", baselines=False, on="inline").export("models")
    np.savez("rows.npz", x=ROWS)
    del sys.modules[NAME]
    yield
    sys.modules.pop(NAME, None)


@pytest.mark.usefixtures("here")
def test_it_answers_everywhere_alike(ask: Ask) -> None:
    expected = load_exported("models", network="net_of_mine:Net").model("anna").predict(ROWS)
    answer = ask("predict", "models", "--client", "anna", "rows.npz", "--network", "net_of_mine:Net", "--json")
    assert [each["label"] for each in json.loads(answer.out)["answers"]] == expected.labels
    entries = find_entries([Path("models")], network="net_of_mine:Net")
    with asking(application(Catalogue(entries, 1 << 20), Limits(), None)) as server:
        told = server.post("/predict", json={"client": "anna", "inputs": ROWS.tolist()}).json()
    assert [each["label"] for each in told["predictions"]] == expected.labels


@pytest.mark.usefixtures("here")
def test_nothing_is_imported_unless_it_is_named(ask: Ask) -> None:
    asked = ("predict", "models", "--client", "anna", "rows.npz")
    assert "on the command line --network MODULE:Net" in ask(*asked).err
    assert NAME not in sys.modules
    assert "no attribute 'Nett'" in ask(*asked, "--network", "net_of_mine:Nett").err
    assert "Cannot load 'Net' of 'nowhere'" in ask(*asked, "--network", "nowhere:Net").err
    with pytest.raises(PartitaError, match="Unknown"):
        load_exported("models", network="Net")


@pytest.mark.usefixtures("here")
def test_a_run_is_exported_first(ask: Ask) -> None:
    asked = ask("predict", "mine", "--client", "anna", "rows.npz", "--network", "net_of_mine:Net")
    assert (asked.code, "Export its models first" in asked.err) == (2, True)
    assert "export" in ask("predict", "mine", "--client", "anna", "rows.npz").err
    assert partita.open("mine").scores()
