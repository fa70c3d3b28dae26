"""The run that is served is made once."""

from pathlib import Path

import pytest

from web.served_models import make_served


@pytest.fixture(scope="session")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that is done, and one that is not. Nobody writes to it."""
    return make_served(tmp_path_factory.mktemp("kept"))
