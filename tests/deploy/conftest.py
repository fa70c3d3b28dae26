"""Every site has the network of these tests installed."""

import pytest

from deploy.federations import installed
from partita import registry


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "entry_points", installed)
