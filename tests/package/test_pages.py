"""Every code block of the documentation runs, and every command that a page names exists with its options.

Blocks of a page run in their order, in one empty folder: `python` in one namespace, `sh` line by line. A block whose
first line is a comment with a file's name is also written to that file. Indented blocks are read, not run.
"""

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import click
import pytest
import typer

from partita.cli.main import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
BLOCK = re.compile(r"^```(python|sh|toml|json)\n(.*?)^```", re.DOTALL | re.MULTILINE)
NEEDS = {"onnxruntime": "onnx", "transformers": "hf", "peft": "hf", "pandas": "pandas", "PIL": "images"}
SLOW = ("docs/howto/huggingface-lora.md", "docs/howto/sweep-and-table.md")
"""Pages that take longer than a few seconds."""
COMMAND = typer.main.get_command(app)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[tuple[str, str]]:
    return [(found[1], found[2]) for found in BLOCK.finditer(page.read_text(encoding="utf-8"))]


def with_blocks() -> list[object]:
    """Pages that have something to run; slow ones are marked."""
    found = [page for page in PAGES if any(kind in ("python", "sh") for kind, _ in blocks(page))]
    return [
        pytest.param(page, id=name_of(page), marks=[pytest.mark.slow] if name_of(page) in SLOW else [])
        for page in found
    ]


@pytest.mark.parametrize("page", with_blocks())
@pytest.mark.usefixtures("own_folder")
def test_a_page_runs(page: Path, told: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PARTITA_WORKERS", "1")
    # What CONTRIBUTING adds stands in the folder of the methods.
    namespace: dict[str, object] = {"__name__": "partita.algorithms.page", "__package__": "partita.algorithms"}
    before = set(sys.modules)
    for kind, text in blocks(page):
        if kind == "python":
            if any(re.search(rf"^(import|from) {module}\b", text, re.M) and not find_spec(module) for module in NEEDS):
                pytest.skip("a package is not installed")
            if named := re.match(r"# (\w+\.py)\n", text):
                Path(named[1]).write_text(text, encoding="utf-8")
            exec(compile(text, name_of(page), "exec"), namespace)
        elif kind == "sh":
            for line in text.splitlines():
                program, *arguments = shlex.split(line, comments=True)
                assert program == "partita"
                told(*arguments)
    for name in set(sys.modules) - before:
        if Path(f"{name}.py").exists():
            # Another page may have a module of this name.
            del sys.modules[name]


def test_tables_and_settings_can_be_read() -> None:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    for page in PAGES:
        for kind, text in blocks(page):
            if kind in ("toml", "json"):
                (tomllib.loads if kind == "toml" else json.loads)(text)


def commands(page: Path) -> Iterator[str]:
    """Commands in indented lines and between backticks."""
    text = page.read_text(encoding="utf-8")
    for line in re.findall(r"^    (?:\.venv/bin/)?(partita .*)$", text, re.MULTILINE):
        yield from (part.strip() for part in re.split(r"\s#\s|&&", line) if part.strip().startswith("partita "))
    yield from re.findall(r"`(partita [a-z][^`]*)`", BLOCK.sub("", text))


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=name_of)
def test_commands_of_a_page_exist(page: Path) -> None:
    for line in commands(page):
        if "..." in line or "COMMAND" in line:
            continue
        check(line)


def check(line: str) -> None:
    """Parse a command without running it."""
    arguments = shlex.split(line)[1:]
    command, context = COMMAND, click.Context(COMMAND, info_name="partita")
    while isinstance(command, click.Group):
        if not arguments:
            # A group of commands.
            return
        name = arguments.pop(0)
        found = command.get_command(context, name)
        assert found is not None, f"{line}: there is no command {name!r}"
        command = found
    needed = [each for each in command.params if isinstance(each, click.Argument) and each.required]
    if "--help" in arguments or (not arguments and needed):
        # A command that is mentioned by its name alone.
        return
    try:
        command.make_context(line, arguments)
    except (click.MissingParameter, click.BadOptionUsage):
        # It is mentioned by an option alone.
        pass
    except click.UsageError as problem:
        pytest.fail(f"{line}: {problem.format_message()}")
