"""How is an experiment written down? As settings it can be made from again, and fingerprints of what has none."""

import dataclasses
import inspect
import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from .. import registry
from ..core.algorithm import Algorithm
from ..core.optimizers import OPTIMIZERS, SGD, Adaptive
from ..core.schedules import Schedule
from ..core.selectors import Selector
from ..data.federation import Federation
from ..data.split import Split
from ..errors import PartitaError
from ..simulation.experiment import Experiment, Pretraining
from .files import make
from .fingerprint import fingerprint
from .settings import arguments, named

PYTHON = "python"
"""The key of a part that exists only in Python, beside its fingerprint."""
Description = dict[str, Any]


def describe_experiment(experiment: Experiment) -> Description:
    """Every field of an experiment: settings where it can be made from settings, else a name and a fingerprint.

    Two experiments with the same description and the same data have the same result.
    """
    found: Description = {}
    for field in dataclasses.fields(experiment):
        value = getattr(experiment, field.name)
        found[field.name] = _field(field.name, value)
    found["participation"] = str(experiment.sampler)
    return found


def rebuild(description: Mapping[str, Any], like: Experiment | None = None) -> Experiment:
    """The experiment that was described; what it has in common with another one at hand is not made again."""
    known = describe_experiment(like) if like else {}
    given = {key: value for key, value in description.items() if key not in known or known[key] != value}
    if missing := python_parts(given):
        raise PartitaError(
            f"This was made in Python, from objects that settings cannot name: {', '.join(missing)}. Call partita.run "
            "with the same objects and the same folder."
        )
    if like:
        return dataclasses.replace(like, **arguments(Experiment, given, "", complete=False))
    return make({key: value for key, value in given.items() if value not in (None, {})})


def python_parts(description: Mapping[str, Any]) -> list[str]:
    """The fields that only Python objects can give."""
    return [name for name, value in description.items() if _has_python(value)]


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two descriptions, as sentences."""
    old, new = dict(flat(before)), dict(flat(now))
    changed = [
        f"{key} is {new.get(key, 'missing')}, and was {old.get(key, 'missing')}"
        for key in dict.fromkeys((*new, *old))
        if new.get(key) != old.get(key)
    ]
    named = {key.partition(".")[0] for key in dict.fromkeys((*new, *old)) if new.get(key) != old.get(key)}
    # Objects of the same name that are not the same.
    others = [key for key in now if now[key] != before.get(key) and key not in named]
    return [*changed, *(f"{key} ({new.get(key)}) has other source code or other values" for key in others)]


def flat(description: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Settings by dotted key, with values as text; things that have a name stand for it."""
    for key, value in description.items():
        if isinstance(value, Mapping) and value:
            name = value.get("name", value.get(PYTHON))
            if name is not None:
                yield f"{above}{key}", name
            rest = {inner: each for inner, each in value.items() if inner not in ("name", PYTHON, "fingerprint")}
            yield from flat(rest, f"{above}{key}.")
        else:
            yield f"{above}{key}", json.dumps(value) if isinstance(value, list | tuple) else value


def plain(value: object) -> Any:
    """A setting as an experiment file would say it. What has no such form is an error."""
    if isinstance(value, Schedule | Selector):
        return str(value)
    if isinstance(value, SGD | Adaptive):
        return optimizer_settings(value)
    if isinstance(value, Algorithm | Split):
        return {"name": value.name, **{key: plain(each) for key, each in value.settings.items()}}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, str | int | float | bool | None):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    raise PartitaError(f"A {type(value).__name__} cannot be written as a setting.")


def optimizer_settings(optimizer: SGD | Adaptive) -> dict[str, Any]:
    """An optimizer as an experiment file would name it: what is not default."""
    name = optimizer.second if isinstance(optimizer, Adaptive) else "sgd"
    known = inspect.signature(OPTIMIZERS[name]).parameters
    given = {
        field.name: plain(getattr(optimizer, field.name))
        for field in dataclasses.fields(optimizer)
        if field.name in known
    }
    return {"name": name, **{key: value for key, value in given.items() if value != _default(known[key])}}


def _default(parameter: inspect.Parameter) -> Any:
    return parameter.empty if parameter.default is parameter.empty else plain(parameter.default)


def _field(name: str, value: object) -> Any:
    if isinstance(value, Algorithm):
        return _algorithm(value)
    if isinstance(value, Pretraining):
        return {"algorithm": _algorithm(value.algorithm), "rounds": value.rounds}
    if isinstance(value, Federation):
        if value.settings is None:
            return {PYTHON: value.name, "fingerprint": value.fingerprint}
        return dict(value.settings)
    if name == "model":
        return _model(value)
    if name == "server":
        return None if value is None else _server(value)
    if name == "participation":
        return None
    if name == "weights":
        return _python("initial weights", value) if value else {}
    if callable(value):
        return _python(getattr(value, "__name__", type(value).__name__), value)
    return plain(value)


def _algorithm(algorithm: Algorithm) -> Any:
    try:
        settings = plain(algorithm)
        again = named("algorithms", settings, "algorithm")
    except (PartitaError, TypeError):
        return _python(algorithm.label, algorithm)
    # An algorithm may have been changed after it was made.
    same = fingerprint(again) == fingerprint(algorithm)
    return settings if same else _python(algorithm.label, algorithm)


def _model(model: object) -> Any:
    function, given = (model.func, model.keywords) if isinstance(model, partial) and not model.args else (model, {})
    name = getattr(function, "__name__", type(model).__name__)
    try:
        known = registry.get("models", name)
        return {"name": name, **plain(given)} if known is function else _python(name, model)
    except PartitaError:
        return _python(name, model)


def _server(server: object) -> Any:
    for name in registry.names("servers"):
        parameters = inspect.signature(registry.get("servers", name)).parameters
        if all(hasattr(server, key) for key in parameters):
            settings = {"name": name}
            try:
                settings |= {key: plain(getattr(server, key)) for key in parameters}
                again = named("servers", settings, "server")
            except PartitaError:
                continue
            if fingerprint(again) == fingerprint(server):
                return settings
    return _python(type(server).__name__, server)


def _python(name: str, value: object) -> dict[str, str]:
    return {PYTHON: name, "fingerprint": fingerprint(value)}


def _has_python(value: object) -> bool:
    return isinstance(value, Mapping) and (PYTHON in value or any(map(_has_python, value.values())))
