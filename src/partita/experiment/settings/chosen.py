"""Which settings of an experiment were chosen? Those that are not defaults, and every optimizer as a whole."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ... import registry
from ...errors import PartitaError
from ..experiment import Experiment
from .description import described_field, plain
from .flat import FINGERPRINT, PYTHON

ALWAYS = ("rounds", "algorithm", "model")
"""Fields that are shown whatever their value."""
ELSEWHERE = ("data", "seed", "engine", "device")
"""Fields that are shown elsewhere with the run, or affect only speed."""


def chosen_settings(description: Mapping[str, Any]) -> dict[str, str]:
    """The chosen settings by dotted key, in words: `{"rounds": "50", "optimizer": "sgd lr=0.1 momentum=0.9"}`."""
    fields = {field.name: field for field in dataclasses.fields(Experiment)}
    found: dict[str, str] = {}
    for key, value in description.items():
        if key in ELSEWHERE or key not in fields:
            continue
        if key == "algorithm":
            found |= _own(value, "")
        elif key in ALWAYS or value != _default(fields[key]):
            found |= {key: _text(value)} if key != "pretrain" else _own(value, "pretrain.")
    return found


def _own(settings: Mapping[str, Any], above: str) -> dict[str, str]:
    """The settings of a method that differ from its defaults, and its optimizers."""
    found: dict[str, str] = {}
    defaults = _defaults(settings)
    for key, value in settings.items():
        if key in ("name", PYTHON, FINGERPRINT):
            continue
        if key in ("on", "algorithm") and isinstance(value, Mapping):
            found |= {f"{above}{key}": str(value.get("name")), **_own(value, f"{above}{key}.")}
        elif key.endswith("optimizer") or key not in defaults or value != defaults[key]:
            found[f"{above}{key}"] = _text(value)
    return found


def _defaults(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What the function of that name takes, if it can be found and all of it be written down."""
    found: dict[str, Any] = {}
    try:
        function: Callable[..., Any] = registry.get("algorithms", str(settings.get("name")))
    except PartitaError:
        return found
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.default is not parameter.empty:
            try:
                found[name] = plain(parameter.default)
            except PartitaError:
                continue
    return found


def _default(field: "dataclasses.Field[Any]") -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return described_field(field.name, field.default_factory())
    return None if field.default is dataclasses.MISSING else described_field(field.name, field.default)


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        rest = (f"{key}={_text(each)}" for key, each in value.items() if key not in ("name", PYTHON, FINGERPRINT))
        return " ".join([*([str(value["name"])] if "name" in value else []), *rest])
    return " ".join(map(_text, value)) if isinstance(value, list | tuple) else str(value)
