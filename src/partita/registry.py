"""How is a thing found by its name? In its folder here, among entry points, or as `package.module:function`."""

import importlib
import inspect
import pkgutil
from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any, Literal, get_args

from .errors import PartitaError, unknown

Kind = Literal["algorithms", "models", "data", "splits"]
KINDS: tuple[Kind, ...] = get_args(Kind)


def names(kind: Kind) -> list[str]:
    """Every name known: the files of the folder and the entry points of the group `partita.KIND`."""
    package = importlib.import_module(f"partita.{kind}")
    files = {module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_")}
    return sorted(files | {point.name for point in entry_points(group=f"partita.{kind}")})


def get(kind: Kind, name: str) -> Callable[..., Any]:
    """The function of that name, which makes the thing from its settings."""
    if ":" in name:
        return _attribute(*name.split(":", 1))
    for point in entry_points(group=f"partita.{kind}", name=name):
        return _attribute(point.module, point.attr)
    if name not in names(kind):
        raise PartitaError(unknown(kind.removesuffix("s"), name, names(kind)) + " Your own: 'package.module:function'.")
    return _attribute(f"partita.{kind}.{name}", name)


def summary(function: Callable[..., Any]) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(function) or "").partition("\n")[0]


def _attribute(module: str, attribute: str) -> Callable[..., Any]:
    try:
        found: object = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise PartitaError(
            f"Cannot load {attribute!r} of {module!r}: {error}. Is the package installed, or its folder on PYTHONPATH?"
        ) from error
    if not callable(found):
        raise PartitaError(f"{module}:{attribute} is a {type(found).__name__}, not a function.")
    return found
