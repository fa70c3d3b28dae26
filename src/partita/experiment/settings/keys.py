"""Which key was meant? The nearest of those that are known, also of those within defaults."""

import dataclasses
from collections.abc import Iterator, Mapping

from ...core.algorithm import Algorithm
from ...data.split import Split
from ...errors import unknown

Settings = Mapping[str, object]


def unknown_key(key: str, known: Settings, where: str) -> str:
    """The message for a key that does not exist."""
    for path in _paths(known):
        if path.endswith("." + key):
            return f"Unknown setting {key!r} of {where or 'the experiment'}. Did you mean {path!r}?"
    return f"{where or 'Experiment'}: {unknown('setting', key, known)}"


def _paths(known: Settings, before: str = "") -> Iterator[str]:
    """The dotted names of all settings, also of those within defaults."""
    for name, default in known.items():
        yield before + name
        if isinstance(default, Algorithm | Split | Mapping):
            inner = default if isinstance(default, Mapping) else default.settings
            yield from _paths(inner, f"{before}{name}.")
        elif dataclasses.is_dataclass(default):
            yield from (f"{before}{name}.{field.name}" for field in dataclasses.fields(default))
