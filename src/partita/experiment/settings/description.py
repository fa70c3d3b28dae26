"""How is an experiment described? By settings it can be made from, and fingerprints of the user's own objects."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ... import registry
from ...core.algorithm import Algorithm
from ...core.optimizers import OPTIMIZERS, SGD, Adaptive
from ...core.schedules import Schedule
from ...core.selectors import Selector
from ...core.server import Aggregation, Server
from ...data.federation import Federation
from ...data.split import Split
from ...errors import PartitaError
from ...registry import Trusted
from ...tensors import Tensors
from ..experiment import Experiment, Participation, Pretraining
from ..samplers import sampler
from .files import make
from .fingerprint import fingerprint, same_code
from .flat import FINGERPRINT, PYTHON, flat
from .settings import arguments, named

Description = dict[str, Any]
Configured = Algorithm | Aggregation
"""Made by a function whose arguments are its settings."""


def describe_experiment(experiment: Experiment) -> Description:
    """Describe every field of an experiment: by settings if it can be made from them, else by a name and a fingerprint.

    Two experiments with the same description and the same data have the same result.
    """
    fields = dataclasses.fields(experiment)
    return {field.name: described_field(field.name, getattr(experiment, field.name)) for field in fields}


def described_field(name: str, value: Any) -> Any:
    """A value of a field of an experiment."""
    describe: Callable[[Any], Any] = _FIELDS.get(name, plain)
    return describe(value)


def rebuild(description: Mapping[str, Any], like: Experiment | None = None) -> Experiment:
    """Make the experiment that was described. Parts that it shares with the experiment `like` are not made again.

    The code may have changed in the meantime, so compare the descriptions.
    """
    known = describe_experiment(like) if like else {}
    given = {key: value for key, value in description.items() if key not in known or known[key] != value}
    if missing := [key for key, (_, _, kind) in fingerprints(given).items() if kind == PYTHON]:
        raise PartitaError(
            f"This run was made in Python from objects that settings cannot describe: {', '.join(missing)}. Call "
            "partita.run with the same objects and the same folder: its result has evaluate(), guard() and export()."
        )
    settings = {key: _without_fingerprints(value) for key, value in given.items() if value not in (None, {})}
    if not like:
        return make(settings)
    defaults = {field.name: _default_of(field) for field in dataclasses.fields(Experiment) if field.name in given}
    return dataclasses.replace(like, **{**defaults, **arguments(Experiment, settings, "", complete=False)})


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs between two descriptions, as sentences."""
    old, new = dict(flat(before)), dict(flat(now))
    changed = {key: None for key in (*new, *old) if new.get(key) != old.get(key)}
    found = [f"{key} is {new.get(key, 'missing')}, and was {old.get(key, 'missing')}" for key in changed]
    parts = fingerprints(before)
    for key, (name, held, _) in fingerprints(now).items():
        if key in changed or key not in parts or parts[key][1] == held:
            continue
        if same_code(parts[key][1], held):
            found.append(f"{key} ({name}) has other values: of its arguments, weights, closures or globals")
        else:
            found.append(f"{key} ({name}) has other code")
    return found


def fingerprints(description: Mapping[str, Any], above: str = "") -> dict[str, tuple[str, str, str]]:
    """The name, fingerprint and kind of every part that has a fingerprint, by dotted key."""
    found: dict[str, tuple[str, str, str]] = {}
    for key, value in description.items():
        if isinstance(value, Mapping):
            kinds = [kind for kind in (PYTHON, FINGERPRINT) if kind in value]
            found |= {f"{above}{key}": (value["name"], value[kind], kind) for kind in kinds}
            found |= fingerprints(value, f"{above}{key}.")
    return found


def plain(value: object) -> Any:
    """A value as a setting in an experiment file. A value that has no such form is an error."""
    if isinstance(value, Schedule | Selector):
        return str(value)
    if isinstance(value, SGD | Adaptive):
        return optimizer_settings(value)
    if isinstance(value, Algorithm | Aggregation):
        return {"name": _name_of(value), **plain(value.settings)}
    if isinstance(value, Split):
        return {"name": value.name, **plain(value.settings)}
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
    """An optimizer as settings in an experiment file, without those that are default."""
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


def _default_of(field: "dataclasses.Field[Any]") -> Any:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _python(name: str, value: object) -> Description:
    return {"name": name, PYTHON: fingerprint(value)}


def _code(value: Any) -> Description | None:
    """A loss, a measure or a sampler."""
    return None if value is None else _python(getattr(value, "__name__", type(value).__name__), value)


def _algorithm(algorithm: Algorithm) -> Description:
    return _configured(algorithm, algorithm.label)


def _configured(made: Configured, label: str) -> Description:
    """The settings of an object, if the function that made it makes the same object from them again."""
    kind = _kind(made)
    try:
        settings: Description = plain(made)
        again = named(kind, _trusted_name(settings), kind)
    except PartitaError:
        return _python(label, made)
    # It may have been changed after it was made, or its settings may look the same as text and differ.
    held = fingerprint(made)
    if fingerprint(again) != held:
        return {"name": label, PYTHON: held}
    return settings if _is_ours(made) else {**settings, FINGERPRINT: held}


def _kind(made: Configured) -> registry.Kind:
    return "algorithms" if isinstance(made, Algorithm) else "servers"


def _name_of(made: Configured) -> str:
    """The name under which the function that made an object is found."""
    module, _, function = made.made_by.partition(":")
    if module == "__main__" or not function.isidentifier():
        raise PartitaError(f"{made.name} was not made by a function that can be imported.")
    return made.name if _has_name(_kind(made), made.name, made.made_by) else made.made_by


def _has_name(kind: registry.Kind, name: str, path: str) -> bool:
    # Looking through all that is installed takes longer than asking for the package's own names.
    known = registry.is_built_in(kind, name) or name in registry.names(kind)
    return known and _path(registry.get(kind, name)) == path


def _is_ours(made: Configured) -> bool:
    built_on = (each for each in made.settings.values() if isinstance(each, Algorithm | Aggregation))
    return made.made_by.startswith("partita.") and all(map(_is_ours, built_on))


def _path(function: Any) -> str:
    return f"{function.__module__}:{function.__qualname__}"


def _trusted_name(settings: Any) -> Any:
    """Mark the names of objects that exist in this process as trusted."""
    if not isinstance(settings, Mapping):
        return settings
    inner = {key: _trusted_name(value) for key, value in settings.items()}
    return {**inner, "name": Trusted(settings["name"])} if "name" in settings else inner


def _pretrain(pretrain: Pretraining | None) -> Description | None:
    return {"algorithm": _algorithm(pretrain.algorithm), "rounds": pretrain.rounds} if pretrain else None


def _model(model: Any) -> Description:
    function, given = (model.func, model.keywords) if isinstance(model, partial) and not model.args else (model, {})
    name = getattr(function, "__name__", type(model).__name__)
    try:
        path = _importable(function)
        settings = {"name": name if _has_name("models", name, path) else path, **plain(given)}
    except PartitaError:
        return _python(name, model)
    # As settings would make it: a function that is given nothing is the same as it is by itself.
    again = partial(function, **given)
    return settings if path.startswith("partita.") else {**settings, FINGERPRINT: fingerprint(again)}


def _importable(thing: Any) -> str:
    """The path `package.module:function` of an object, if another process can import it."""
    path = _path(thing) if hasattr(thing, "__qualname__") else ":"
    module, _, name = path.partition(":")
    if module == "__main__" or not name.isidentifier() or registry.get("models", Trusted(path)) is not thing:
        raise PartitaError(f"{path} cannot be imported.")
    return path


def _data(data: Federation) -> Description:
    if data.settings is None:
        return _python(data.name, _meaning(data))
    settings: Description = plain(data.settings)
    ours = registry.is_built_in("data", str(settings["name"]))
    return settings if ours else {**settings, FINGERPRINT: fingerprint(_meaning(data))}


def _meaning(data: Federation) -> object:
    """The properties of data that affect a result, besides values and division, which have their own fingerprint."""
    no_samples = data.samples.take(slice(0)).alone()
    names = "\n".join(data.names)
    return no_samples, data.classes, data.kind, data.facts, list(data.label_sets), names


def _server(server: Server | None) -> Description | None:
    if server is None:
        return None
    name = type(server).__name__
    return _configured(server, name) if isinstance(server, Aggregation) else _python(name, server)


def _participation(given: Participation) -> Any:
    chosen = sampler(given)
    try:
        same = sampler(str(chosen)) == chosen
    except PartitaError:
        same = False
    return str(chosen) if same else _code(chosen)


def _weights(weights: Tensors) -> Description:
    return _python("initial weights", weights) if weights else {}


def _without_fingerprints(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    return {key: _without_fingerprints(each) for key, each in value.items() if key != FINGERPRINT}


_FIELDS: dict[str, Callable[[Any], Any]] = {
    "algorithm": _algorithm,
    "model": _model,
    "data": _data,
    "participation": _participation,
    "server": _server,
    "pretrain": _pretrain,
    "loss": _code,
    "measure": _code,
    "weights": _weights,
}
