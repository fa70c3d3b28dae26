"""The attacks of `make attack` in a short form, and the page that tells what they found."""

import json
import re
from pathlib import Path

import pytest
from attacks.__main__ import ATTACKS, FEDERATION
from attacks.page import LONG, MEANINGS, RESULTS, found, long_table, table

from runs.kept import forks

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
SHORT = {
    "crashes": 3,
    "interrupts": 3,
    "damage": 12,
    "room": 4,
    "files": 30,
    "settings": 60,
    "requests": 25,
    "grids": 4,
    "messages": 25,
}
"""How often each is tried here; others fifty times."""


SLOW = {"requests": pytest.mark.slow}
"""It starts a server."""
OWN = [name for name in ATTACKS if name not in FEDERATION]


def between(begin: str, end: str = "\n\n") -> str:
    """The part of the page from a line to the next empty one."""
    text = PAGE.read_text(encoding="utf-8")
    return text[text.index(begin) :].partition(end)[0] + "\n"


@forks
@pytest.mark.parametrize("name", [pytest.param(each, marks=SLOW.get(each, ())) for each in OWN])
def test_nothing_breaks(name: str, tmp_path: Path) -> None:
    if name == "requests":
        pytest.importorskip("uvicorn")
    attack, _ = ATTACKS[name]
    tally = attack(tmp_path, SHORT.get(name, 50), 1)
    assert tally.trials >= 3
    assert tally.broken == []


def test_every_attack_is_told() -> None:
    assert set(MEANINGS) == set(OWN)
    results = found()
    assert set(results) == set(OWN), "run make attack"
    for name, each in results.items():
        assert each["trials"] == sum(each["held"].values()) + len(each["broken"])
        assert each["trials"] > 0
        assert re.fullmatch(rf"python -m attacks {name} --share [\d.]+ --seed \d+", each["command"])


def test_the_page_has_the_counts() -> None:
    assert between("| attack |") == table(found())


def test_the_page_has_the_times_of_long_runs() -> None:
    assert between("| command |") == long_table(json.loads((RESULTS / f"{LONG}.json").read_text(encoding="utf-8")))
