"""How is a description read by dotted keys? Without what it describes: torch is not needed to compare runs."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

PYTHON = "@python"
"""The key of the fingerprint of a part that settings cannot describe."""
FINGERPRINT = "@fingerprint"
"""The key of the fingerprint of a part that settings describe, but whose code is the user's own."""


def flat(description: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by dotted key, with values as text; named objects appear as their name."""
    for key, value in description.items():
        if isinstance(value, Mapping) and value:
            if "name" in value:
                yield f"{above}{key}", value["name"]
            rest = {inner: each for inner, each in value.items() if inner not in ("name", PYTHON, FINGERPRINT)}
            yield from flat(rest, f"{above}{key}.")
        else:
            yield f"{above}{key}", json.dumps(value) if isinstance(value, list | tuple) else value
