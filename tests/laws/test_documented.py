"""Does the documentation say of every method how it is read, and does what it names as proof exist?"""

import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

from partita import registry

PAGE = Path(__file__).parents[2] / "docs" / "algorithms.md"
REFERENCE = re.compile(r"`(test_\w+)\.py(?:::(\w+)|\[([^]`]+)\])`")

ELSEWHERE = {"second_moment", "adam", "yogi", "adagrad", "fedsim"}
"""Names in the table that are no arguments of the method."""


def rows() -> dict[str, list[str]]:
    """The table of tests of each method: reading, other readings and tests, by method."""
    table = PAGE.read_text(encoding="utf-8").partition("## Which tests check each method")[2].partition("\n## ")[0]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:3] == "| `"]
    return {method.strip("`"): rest for method, *rest in cells}


def exists(module: str, function: str, case: str) -> bool:
    """Whether a file of laws has this test, or a test with this case."""
    try:
        tests = vars(import_module(f"laws.{module}"))
    except ModuleNotFoundError:
        return False
    if function:
        return callable(tests.get(function))
    marks = [mark for test in tests.values() if callable(test) for mark in getattr(test, "pytestmark", [])]
    return any(mark.name == "parametrize" and case in list(mark.args[1]) for mark in marks)


def test_every_method_has_its_entry() -> None:
    entries = rows()
    assert sorted(entries) == sorted(registry.names("algorithms"))
    for method, (reading, _, tests) in entries.items():
        assert reading, f"{method}: no reading"
        assert REFERENCE.search(tests), f"{method}: no test"


def test_what_is_named_as_proof_exists() -> None:
    for module, function, case in REFERENCE.findall(PAGE.read_text(encoding="utf-8")):
        assert exists(module, function, case), f"{module}.py: {function or case}"


@pytest.mark.parametrize(
    ("module", "function", "case"),
    [("test_golden", "test_g99", ""), ("test_oracles", "", "fedavg 9"), ("test_nowhere", "", "fedavg")],
)
def test_what_does_not_exist_is_noticed(module: str, function: str, case: str) -> None:
    assert not exists(module, function, case)


def test_options_in_the_table_exist() -> None:
    """A setting that is called `name=` or `name` is an argument of the method; `server.` names another thing."""
    for method, (_, options, _) in rows().items():
        known = inspect.signature(registry.get("algorithms", method)).parameters.keys()
        named = [name for name in re.findall(r"`(\w+)(?:=[^`]*)?`", options) if name not in ELSEWHERE]
        assert set(named) <= known, f"{method}: {set(named) - known}"
