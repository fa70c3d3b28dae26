"""The first command and the first request on the page of the docs about serving, as they stand there."""

import json
import re
import shlex
from pathlib import Path

import httpx
import numpy as np
import pytest

from partita.experiment.settings.files import make, read
from partita.runs.session import Session
from web.served_models import serving

PAGE = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")


def make_mine(folder: Path) -> None:
    """A run of eight clients, whose samples are three numbers each and have labels of text."""
    draw = np.random.default_rng(0)
    labels = np.array(["sitting", "standing", "walking"])[np.arange(96) % 3]
    np.savez("rows.npz", x=draw.normal(size=(96, 3)), y=labels, client=np.repeat(np.arange(8), 12))
    given = ("data=npz", f"data.path={Path('rows.npz').resolve()}", "model=mlp", "algorithm=fedper")
    with Session.start(make(read(None, [*given, "rounds=1", "evaluate_every=0"])), folder, on="inline") as session:
        session.run()


@pytest.mark.usefixtures("own_folder")
def test_the_page_tells_what_is_answered() -> None:
    make_mine(Path("runs/mine"))
    block = re.search(r"```console\n\$ (curl .*)\n((?:.*\n)*?)```", PAGE)
    assert block
    words = shlex.split(block[1])
    assert words[:3] == ["curl", "-s", "localhost:8000/predict"]
    name, _, value = words[words.index("-H") + 1].partition(": ")
    told = json.loads(block[2])
    command = re.search(r"^    partita serve (\S+)$", PAGE, re.MULTILINE)
    assert command
    with serving(command[1]) as address:
        answer = httpx.post(f"{address}predict", content=words[words.index("-d") + 1], headers={name: value})
        counted = httpx.get(f"{address}clients/7").json()
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert counted["labels"] == told["predictions"][0]["labels"], "on the page to try models, too"
    for each in (found, told):
        assert each["predictions"][0].pop("label") in each["predictions"][0]["labels"]
        assert sum(each["predictions"][0].pop("probabilities")) == pytest.approx(1)
    assert found == told
