"""Every test that tests/README.md names exists."""

import ast
import re
from pathlib import Path

from laws.faults import FAULTS

TESTS = Path(__file__).resolve().parents[1]
README = (TESTS / "README.md").read_text(encoding="utf-8")


def names_in(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_named_test_exists() -> None:
    named = re.findall(r"`(\w+/test_\w+\.py)(?:::(\w+))?[^`]*`", README)
    assert len(named) > 50
    for file, test in named:
        assert not test or test in names_in(file), f"{file}::{test}"


def test_every_file_of_laws_is_named() -> None:
    laws = {path.name for path in (TESTS / "laws").glob("test_*.py")}
    assert {name for name in laws if f"`{name}`" not in README} == set()


def test_every_fault_is_named() -> None:
    told = README.partition("## Faults")[2]
    assert [fault.name for fault in FAULTS if f"| {fault.name} | {fault.file} |" not in told] == []
    assert f"puts {len(FAULTS)} faults" in told
