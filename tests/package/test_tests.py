"""What holds of all tests and programs: none ends by an impatient clock, and a long file says why it is one."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(path for room in ("tests", "benchmarks", "attacks", "manual") for path in (ROOT / room).rglob("*.py"))
PATIENT = 120
"""Seconds that a process may take on a machine with much other work. They only end a test that hangs."""
LONG = 300
"""Lines."""


def test_no_limit_is_so_short_that_a_busy_machine_reaches_it() -> None:
    impatient = [
        f"{path.relative_to(ROOT)}: {found}"
        for path in (ROOT / "tests").rglob("*.py")
        for found in re.findall(r"timeout=(\d+)", path.read_text(encoding="utf-8"))
        if int(found) < PATIENT
    ]
    assert impatient == []


@pytest.mark.parametrize("path", [path for path in FILES if path.read_text(encoding="utf-8").count("\n") > LONG])
def test_a_long_file_says_why(path: Path) -> None:
    """In its docstring. In the package no file is long."""
    assert "One file, since " in (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")
