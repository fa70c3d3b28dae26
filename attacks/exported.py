"""Is a folder of exported models read safely? Damage is refused; what somebody forged is plain values or refused."""

import hashlib
import json
import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from partita.errors import PartitaError
from partita.serving.artefact import load_exported
from partita.serving.card_files import CARD
from partita.serving.export import export_models
from partita.serving.loaded import load

from .mutation import count, damaged, set_somewhere_
from .tally import Tally
from .victim import begin_or_go_on, experiment

Answers = dict[str, Any]


def exported(place: Path, trials: int, seed: int) -> Tally:
    """Files are damaged; or the card is odd, or files are, with hashes that fit."""
    tally, draw = Tally(), random.Random(seed)
    whole = place / "whole"
    begin_or_go_on(place / "run", "fedper", model=None)
    export_models(load(place / "run", experiment=experiment("fedper")), whole)
    expected = _answers(whole)
    names = sorted(str(path.relative_to(whole)) for path in whole.rglob("*") if path.is_file())
    for trial in range(trials):
        folder = Path(shutil.copytree(whole, place / "odd"))
        if trial % 2:
            name = draw.choice(names)
            (folder / name).write_bytes(damaged((folder / name).read_bytes(), draw))
            what = f"damage of {name}"
            count(tally, what, _same, folder, expected, kind="damaged")
        else:
            what = _forge(folder, [name for name in names if name != CARD], draw)
            count(tally, what, _answers, folder, kind="forged")
        shutil.rmtree(folder)
    return tally


def _answers(folder: Path) -> Answers:
    """What all models answer; each is loaded anew."""
    found = load_exported(folder)
    inputs = torch.linspace(-1, 1, 8).reshape(2, 4)
    with suppress(PartitaError):
        found.verify()
    return {client: found.model(client).predict(inputs) for client in found.clients}


def _same(folder: Path, expected: Answers) -> None:
    if repr(_answers(folder)) != repr(expected):
        raise AssertionError("other answers, and nothing was noticed")


def _forge(folder: Path, names: list[str], draw: random.Random) -> str:
    """As by somebody who knows the format."""
    card = json.loads((folder / CARD).read_text(encoding="utf-8"))
    if draw.random() < 0.6:
        set_somewhere_(card, draw)
        what = "card"
    else:
        name = draw.choice(names)
        content = damaged((folder / name).read_bytes(), draw)
        (folder / name).write_bytes(content)
        if name in card["files"]:
            card["files"][name]["sha256"] = hashlib.sha256(content).hexdigest()
        what = name
    text = json.dumps(card)
    (folder / CARD).write_text(text, encoding="utf-8")
    return f"forged {what} {text[:1500]}"
