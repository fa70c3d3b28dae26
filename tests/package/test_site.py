"""The documentation site builds without a warning, and its pages are made from the code."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from partita import registry

pytest.importorskip("mkdocs")
pytest.importorskip("material")

from manual import commands, licences, methods, names, settings

ROOT = Path(__file__).resolve().parents[2]
QUIET = {"NO_MKDOCS_2_WARNING": "1", "DISABLE_MKDOCS_2_WARNING": "true"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built with warnings as errors: links, anchors, pages that are nowhere in the menu."""
    import os

    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, **QUIET, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


def test_every_method_has_a_page(site: Path) -> None:
    for name in registry.built_in("algorithms"):
        page = (site / "methods" / f"{name}.html").read_text(encoding="utf-8")
        assert f"algorithms/{name}.py" in page
        assert "Options" in page


def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    """No script, style, font or picture of another host; links of the text may lead there."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        loaded = re.findall(r"<(?:script|img|iframe)[^>]*src=\"?(https?:[^\">\s]+)", text)
        loaded += re.findall(r"<link[^>]*rel=\"?(?:stylesheet|preload|icon)[^>]*href=\"?(https?:[^\">\s]+)", text)
        loaded += re.findall(r"<link[^>]*href=\"?(https?:[^\">\s]+)[^>]*rel=\"?(?:stylesheet|preload|icon)", text)
        assert not loaded, page


def test_every_command_is_on_its_page_with_an_example() -> None:
    page = commands.page()
    for name, command in commands.commands():
        assert f"## partita {name}\n" in page
        assert f"partita {name}" in (command.help or "").partition("Example")[2], f"partita {name} has no example"


def test_every_public_name_is_on_a_page() -> None:
    pages = names.page() + settings.page() + methods.index(ROOT / "docs" / "methods")
    missing = [name for _, name in names.public() if not re.search(rf"\b{re.escape(name)}\b", pages)]
    # Executors are named on the command line; the page of the module that holds them is not one of settings.
    assert missing == []


def test_texts_of_methods_are_of_methods() -> None:
    written = {path.stem for path in (ROOT / "docs" / "methods").glob("*.md")}
    assert written <= set(registry.built_in("algorithms"))


def test_the_readme_lists_every_method() -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    known = registry.built_in("algorithms")
    assert re.findall(r"^\| \[[^]]+\]\(docs/methods/(\w+)\.md\)", page, re.MULTILINE) == known
    assert f"{len(known)} in all" in page
    assert f"{len(known)} methods" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


def test_licences_of_direct_dependencies_are_listed() -> None:
    page = licences.PAGE.read_text(encoding="utf-8")
    for name in ("torch", "numpy", "safetensors", "scikit-learn", "typer", "rich", "flwr", "fastapi", "onnx"):
        assert f"| {name} |" in page
