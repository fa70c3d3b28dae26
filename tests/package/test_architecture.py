"""The drawing of the rooms in docs/design.md is that of the code, and a newcomer finds each thing in one file."""

import ast
import re
from pathlib import Path

import pytest

from package.test_package import LEVEL, LEVELS, MODULES, ROOT, SOURCES, TEXTS, own_imports

DESIGN = Path(__file__).resolve().parents[2] / "docs" / "design.md"
GROUND = LEVELS[0].split()
BEGIN, END = "```mermaid\n", "```"


def drawing() -> str:
    """One arrow for each room that a room imports; what it reaches through another room has no arrow of its own."""
    uses: dict[str, set[str]] = {}
    for name in MODULES:
        room = _node(name)
        uses.setdefault(room, set()).update(_node(target) for target in own_imports(name) if target)
        uses[room].discard(room)
    reached: dict[str, set[str]] = {}
    for room in sorted(uses, key=_level):
        reached[room] = uses[room].union(*(reached[other] for other in uses[room]))
    lines = [
        f"    {room} --> {other}"
        for room in sorted(uses, key=lambda each: (-_level(each), each))
        for other in sorted(uses[room], key=lambda each: (-_level(each), each))
        if not any(other in reached[between] for between in uses[room])
    ]
    return "flowchart TD\n" + "\n".join(lines) + "\n"


def _node(name: str) -> str:
    room = name.partition(".")[0]
    return "ground" if room in GROUND else room


def _level(room: str) -> int:
    return 0 if room == "ground" else LEVEL[room]


def test_the_drawing_is_that_of_the_code() -> None:
    text = DESIGN.read_text(encoding="utf-8")
    assert text.partition(BEGIN)[2].partition(END)[0] == drawing(), "put this into docs/design.md:\n" + drawing()


def test_every_room_is_told_in_one_line() -> None:
    """By the first line of its docstring, in the order of levels."""
    rooms = [room for room in LEVEL if (ROOT / room).is_dir()]
    firsts = {room: (ast.get_docstring(SOURCES[room]) or "").splitlines()[0] for room in rooms}
    table = "\n".join(f"| `{room}` | {first} |" for room, first in firsts.items())
    assert table in DESIGN.read_text(encoding="utf-8"), "put this into docs/design.md:\n" + table


def test_the_levels_are_told_in_one_line() -> None:
    told = " < ".join(
        "ground" if level == 0 else line if " " not in line else "{" + ", ".join(line.split()) + "}"
        for level, line in enumerate(LEVELS)
    )
    assert told in " ".join(DESIGN.read_text(encoding="utf-8").split())


def test_every_file_that_the_page_names_exists() -> None:
    named = re.findall(r"`([a-z_]+/[a-z_/]+\.(?:py|toml|md))`", DESIGN.read_text(encoding="utf-8"))
    assert len(named) > 20
    assert [file for file in named if not (ROOT / file).exists() and not (DESIGN.parents[1] / file).exists()] == []


@pytest.mark.parametrize("name", MODULES)
def test_no_file_is_long(name: str) -> None:
    assert len(TEXTS[name].splitlines()) <= 300


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("experiment/rounds.py", "rounds"),
        ("core/optimizers.py", "SGD"),
        ("runs/store.py", "Store"),
        ("algorithms/fedper.py", "fedper"),
        ("servers/averaging.py", "averaging"),
        ("data/sources/digits.py", "digits"),
        ("data/splits/dirichlet.py", "dirichlet"),
        ("models/mlp.py", "mlp"),
        ("experiment/executors/inline.py", "inline"),
        ("evaluation/analyses/similarity.py", "similarity"),
        ("report/sections/cost.py", "cost"),
    ],
)
def test_each_thing_is_where_a_newcomer_looks(file: str, name: str) -> None:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert file in DESIGN.read_text(encoding="utf-8")
