"""The same again with other values: the first ones always, the others where there is time (`make test-all`)."""

from collections.abc import Iterable
from typing import Any

import pytest


def repeated(values: Iterable[Any], *, always: int = 1) -> list[Any]:
    """Parameters of which only the first `always` are tried by `make test`; several make a tuple."""
    return [
        value if place < always else pytest.param(*_several(value), marks=pytest.mark.slow)
        for place, value in enumerate(values)
    ]


def _several(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
