"""Wrong inputs, from Python and from the command line: each gets one line that names what was given and the way out.

The lines are in `wrong_inputs.json`; [...] stands for what torch says, or for all that is known.
"""

import json
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import partita
from package.wrong_inputs import CASES, CLIENTS, DATA, INPUTS, LABELS, Net, try_out
from partita import DegenerateWarning, PartitaError, from_clients
from partita.cli.main import main

LINES: dict[str, Any] = json.loads((Path(__file__).parent / "wrong_inputs.json").read_text(encoding="utf-8"))
MYNET = """
from torch import nn

class Narrow(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(5, 10)

    def forward(self, inputs):
        return self.head(inputs.flatten(1))

class Two(Narrow):
    def forward(self, inputs, mask):
        return self.head(inputs * mask)
"""


def same(found: str, expected: str) -> bool:
    pattern = ".*".join(map(re.escape, expected.split("[...]")))
    return re.fullmatch(pattern, found) is not None and "\n" not in found


def test_there_are_enough() -> None:
    assert LINES["python"].keys() == CASES.keys()
    assert len(CASES) + len(LINES["command line"]) >= 120


@pytest.mark.parametrize("name", CASES)
def test_python(name: str, own_folder: Path) -> None:
    with pytest.raises(PartitaError) as caught:
        CASES[name]()
    assert same(str(caught.value), LINES["python"][name]), str(caught.value)
    assert list(own_folder.iterdir()) == [], "a failed start leaves nothing"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("folder")
    (place / "broken.toml").write_text("rounds = = 3\n")
    (place / "misspelt.toml").write_text("rouns = 3\n")
    (place / "badnet.py").write_text("raise RuntimeError('not today')\n")
    (place / "mynet.py").write_text(MYNET)
    (place / "taken").mkdir()
    (place / "taken" / "run.sqlite").touch()
    return place


@pytest.mark.parametrize("name", LINES["command line"])
def test_command_line(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    case = LINES["command line"][name]
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", ["partita", *case["arguments"]])
    before = {path.name for path in folder.iterdir()}
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        with pytest.raises(SystemExit) as ended:
            main()
    out, err = capfd.readouterr()
    assert (ended.value.code, out) == (2, "")
    *notes, line = err.splitlines()
    assert same(line, case["line"]), line
    assert not [note for note in notes if not note.startswith(("Note: ", "fedper on digits: "))]
    assert {path.name for path in folder.iterdir()} - before <= {"runs", "__pycache__"}, "a failed start leaves nothing"
    assert not list((folder / "runs").glob("*"))
    for module in ("mynet", "badnet"):
        sys.modules.pop(module, None)


def apart() -> Any:
    """Train and test of other classes."""
    train, test = (INPUTS[:9], LABELS[:9] * 0), (INPUTS[9:12], LABELS[9:12] * 0 + 2)
    other = {"train": (INPUTS[12:20], LABELS[12:20]), "test": (INPUTS[20:], LABELS[20:])}
    return from_clients({"anna": {"train": train, "test": test}, "ben": other})


def opaque() -> Any:
    images = np.random.default_rng(0).integers(0, 255, (16, 8, 8, 4), dtype=np.uint8)
    images[..., 3] = 255
    return from_clients(images, np.arange(16) % 3, ["anna"] * 8 + ["ben"] * 8)


class Unused(Net):
    def __init__(self) -> None:
        super().__init__()
        self.spare = nn.Linear(2, 2)


def flat() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(256, 3))


QUESTIONABLE: dict[str, tuple[Callable[[], object], str]] = {
    "classes that were never trained on": (
        lambda: try_out(data=apart()),
        "1 client (anna) with test samples mostly of classes without a training sample: 3 of 3. No personal model can "
        "know these. Divide train and test so that classes are in both.",
    ),
    "classes that nobody has": (
        lambda: try_out(model=lambda: Net(classes=9), data=from_clients(CLIENTS, classes=9)),
        "6 of 9 classes occur at no client. Are the labels numbered as is meant?",
    ),
    "one client": (
        lambda: try_out(data=from_clients({"anna": (INPUTS, LABELS)})),
        "Only one client trains: it has no other client to learn with, so every method trains alone.",
    ),
    "one class": (
        lambda: try_out(
            model=lambda: Net(classes=1), data=from_clients(INPUTS, LABELS * 0, ["anna"] * 12 + ["ben"] * 12)
        ),
        "There is one class: there is nothing to tell apart, and a score says nothing.",
    ),
    "opaque images": (
        lambda: try_out(model=flat, data=opaque()),
        "The fourth channel of all images is 255, like opacity in RGBA. Leave it out: inputs[..., :3].",
    ),
    "parameters that are not used": (
        lambda: try_out(model=Unused),
        "2 of 6 parameters of the network get no gradient and stay as they are: spare.weight and spare.bias. The "
        "forward pass does not use them, or detaches what they make.",
    ),
    "a module under several seeds": (
        lambda: partita.run(
            partita.fedper(epochs=1),
            Net(),
            DATA,
            folder="seeds",
            seeds=2,
            rounds=1,
            baselines=False,
            on="inline",
        ),
        "The network is a module, whose weights the seed does not decide: all seeds begin with the same weights. "
        "Give its class, or a function that makes it.",
    ),
}


@pytest.mark.parametrize("name", QUESTIONABLE)
def test_what_runs_but_is_questionable_is_told_once(name: str, own_folder: Path) -> None:
    run, line = QUESTIONABLE[name]
    with pytest.warns(DegenerateWarning) as caught:
        run()
    assert [str(each.message) for each in caught if str(each.message) == line] == [line], [
        str(each.message) for each in caught
    ]


def test_what_is_told_is_kept_and_shown(own_folder: Path, told: Callable[..., str]) -> None:
    with pytest.warns(DegenerateWarning):
        made = partita.run(partita.fedper(epochs=1), Net, apart(), folder="run", rounds=1, baselines=False, on="inline")
    [note] = made.stored.record.notes
    assert note == QUESTIONABLE["classes that were never trained on"][1]
    assert f"Note: {note}\n" in told("show", "run")
    assert json.loads(told("show", "run", "--json"))["notes"] == [note]


def test_made_up_clients_are_told(own_folder: Path) -> None:
    made = partita.run(
        partita.fedavg(), partita.logistic, partita.digits(), folder="run", rounds=1, baselines=False, on="inline"
    )
    assert made.stored.record.notes[0] == "digits does not name the client of each sample: dirichlet made 20 clients"


def test_the_trial_disturbs_nothing() -> None:
    """Neither random numbers, nor the network that was given, nor a bit of the result."""
    module = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 3))
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    state = torch.get_rng_state()
    first = try_out(model=module)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(tensor, before[name]) for name, tensor in module.state_dict().items())
    torch.rand(5)
    second = try_out(model=module)
    assert isinstance(first, partita.Result)
    assert isinstance(second, partita.Result)
    assert first.records == second.records


def test_a_factory_may_take_any_number_of_arguments() -> None:
    def net(*widths: int, classes: int, **more: object) -> nn.Module:
        assert widths == ()
        return Net(classes=classes)

    assert isinstance(try_out(model=net), partita.Result)


def test_sparse_tensors_are_data() -> None:
    made = from_clients(INPUTS.to_sparse(), LABELS, ["anna"] * 12 + ["ben"] * 12)
    dense = from_clients(INPUTS, LABELS, ["anna"] * 12 + ["ben"] * 12)
    assert torch.equal(made.samples.inputs, dense.samples.inputs)


def test_text_and_numbers_stand_for_what_they_mean() -> None:
    assert str(partita.fedalt(personal="head").personal) == "head"  # type: ignore[arg-type]
    assert partita.SGD(0.1, schedule="exponential:0.9").schedule.text == "exponential:0.9"  # type: ignore[arg-type]
    result = try_out(partita.fedalt(personal="head"), batching=32)  # type: ignore[arg-type]
    assert isinstance(result, partita.Result)
    assert result.setup.experiment.batching == partita.Batching(32)
