"""How does an experiment file begin? With every setting of a chosen method, network and data, explained."""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ... import registry
from ...core.algorithm import Algorithm
from ...data.federation import federate
from ..experiment import Experiment
from .description import plain
from .options import options_of
from .schema import properties

ACTIVE = ("rounds", "seed")
"""Settings of an experiment that are written out; others are written as comments."""
SECTIONS = ("algorithm", "model", "data", "server", "pretrain", "groups")
"""Settings that have a section of their own."""
HEAD = """\
# {algorithm} on {data}, with the network {model}.
#
#   partita run {file}                  run it; results, a report and clients' models are kept
#   partita run {file} rounds=50        change a setting
#   partita estimate {file}             time, traffic and memory before running
#
# Lines that begin with # and a name are defaults: remove the # to change them.
"""
PRETRAIN = """\
# Rounds of another method to start from:
#[pretrain]
#algorithm = "fedavg"
#rounds = 10
"""


def template(
    algorithm: str, model: str, data: str, *, split: str | None = None, server: str | None = None, file: str
) -> str:
    """The text of an experiment file. With its comments removed, it says the same."""
    parts = [HEAD.format(algorithm=algorithm, data=data, model=model, file=file), _experiment()]
    parts.append(_section("algorithm", "algorithms", algorithm))
    parts.append(_section("model", "models", model))
    lines = _lines(federate, "division", without=("split", "seed"))
    if not split:
        lines.append("# by default, the clients that the data name, or else 20 by Dirichlet(0.1)")
        lines.append('#split = { name = "dirichlet", clients = 20, alpha = 0.1 }')
    parts.append(_section("data", "data", data) + "\n".join(lines) + "\n")
    if split:
        parts.append(_section("data.split", "splits", split))
    if server:
        parts.append(_section("server", "servers", server))
    return "\n".join([*parts, PRETRAIN])


def _experiment() -> str:
    return "\n".join(_lines(Experiment, "experiment", without=SECTIONS, active=ACTIVE)) + "\n"


def _section(title: str, kind: registry.Kind, name: str) -> str:
    make = registry.get(kind, registry.Trusted(name))
    about = registry.summary(make)
    lines = [f"# {about}"] if about else []
    return "\n".join([*lines, f"[{title}]", f"name = {_toml(name)}", *_lines(make, kind)]) + "\n"


def _lines(
    make: Callable[..., Any], kind: str, *, without: Iterable[str] = (), active: Iterable[str] = ()
) -> list[str]:
    """Two lines for each option: what it means, and its default; an option that must be given is not a comment."""
    known = properties(make, kind).keys() - set(without)
    parameters = inspect.signature(make).parameters
    found: list[str] = []
    for option in options_of(make, kind):
        if option.name not in known:
            continue
        default = parameters[option.name].default
        needed = default is inspect.Parameter.empty
        found.append(f"# {option.meaning or option.name} ({option.type})" + (": fill this in" if needed else ""))
        found.append(f"{'' if needed or option.name in active else '#'}{option.name} = {_toml(_brief(default))}")
    return found


def _brief(default: Any) -> object:
    """A default as a setting; a method by its name where its options are its own defaults."""
    if default is inspect.Parameter.empty:
        return "..."
    if isinstance(default, Algorithm):
        alone = default.settings == registry.get("algorithms", default.name)().settings
        return default.name if alone else plain(default)
    return plain(default)


def _toml(value: object) -> str:
    if value is None:
        return '"none"'
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
