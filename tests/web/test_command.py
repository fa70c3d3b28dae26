"""What `partita serve` says when it cannot serve: one line."""

import importlib.util
import inspect
import re
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from partita.cli.serve import serve
from partita.errors import PartitaError
from partita.web.app import application
from partita.web.catalogue import Catalogue, find_entries
from partita.web.limits import Limits
from partita.web.server import bind
from web.asking import asking


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    plain: Callable[..., ModuleSpec | None] = importlib.util.find_spec

    def find(name: str, package: str | None = None) -> ModuleSpec | None:
        return None if name == "uvicorn" else plain(name, package)

    monkeypatch.setattr("partita.cli.serve.find_spec", find)
    with pytest.raises(PartitaError, match=r"needs uvicorn: pip install 'partita\[serve\]'"):
        serve([Path("runs")])


def test_a_port_in_use_and_a_run_that_is_not_done(kept: Path) -> None:
    with bind("127.0.0.1", 0) as taken, pytest.raises(PartitaError, match="--port 0"):
        serve([kept / "digits"], port=taken.getsockname()[1])
    with pytest.raises(PartitaError, match="partita resume"):
        serve([kept / "half"])
    with pytest.raises(PartitaError, match="is not a folder"):
        serve([kept / "nowhere"])


def test_the_page_of_the_docs_names_options_and_paths_that_exist(kept: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
    block = text.partition("    partita serve RUN...")[2].partition("Ctrl-C")[0]
    told = dict(re.findall(r"--([a-z-]+) (\S+)", block))
    parameters = inspect.signature(serve).parameters
    for name, value in told.items():
        default = parameters[name.replace("-", "_")].default
        assert default is None or str(default).removesuffix(".0") == value, name
    assert told.keys() | {"trust"} == {name.replace("_", "-") for name in parameters if name != "paths"}
    app = application(Catalogue(find_entries([kept / "digits"]), 1), Limits(rate=0))
    with asking(app) as server:
        described = server.get("/openapi.json").json()["paths"]
    named = set(re.findall(r"`(?:GET|POST) (/[a-z.]*)", text)) - {"/openapi.json", "/clients/"}
    assert named | {"/clients/{client}"} == described.keys()
