"""What `partita serve` says when it cannot serve: one line."""

import importlib.util
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from partita.cli.serve import serve
from partita.errors import PartitaError
from partita.web.server import bind


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
