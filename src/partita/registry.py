"""How is a name looked up? Among the package's own files, then entry points, or as `package.module:function`."""

import importlib
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, get_args

from .errors import PartitaError, in_one_line, unknown

Kind = Literal["algorithms", "servers", "models", "data", "splits", "executors", "analyses"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FOLDERS: dict[Kind, str] = {
    "algorithms": "partita.algorithms",
    "servers": "partita.servers",
    "models": "partita.models",
    "data": "partita.data.sources",
    "splits": "partita.data.splits",
    "executors": "partita.experiment.executors",
    "analyses": "partita.evaluation.analyses",
}


def names(kind: Kind) -> list[str]:
    """Every known name: the package's own files and the entry points of the group `partita.KIND`."""
    return sorted({*built_in(kind), *(point.name for point in entry_points(group=f"partita.{kind}"))})


def is_built_in(kind: Kind, name: str) -> bool:
    """Whether the package itself has a file of this name."""
    return name in built_in(kind)


def built_in(kind: Kind) -> list[str]:
    """The names of the package's own files. None of them is imported."""
    package = importlib.import_module(FOLDERS[kind])
    return [module.name for module in pkgutil.iter_modules(package.__path__) if not module.name.startswith("_")]


class Trusted(str):
    """A name that the user trusts. It may be `package.module:function`, and looking it up imports that module."""


def get(kind: Kind, name: str) -> Callable[..., Any]:
    """The function that is registered under a name. Its keyword arguments are settings.

    A name in a file may be that of an installed plugin. It may be the path of a function only if it is `Trusted`,
    because importing a module and calling a function runs code that the author of the file chose.
    """
    if ":" in name:
        if not isinstance(name, Trusted):
            raise PartitaError(
                f"{name!r} imports and runs Python code, which could do anything. "
                "If you trust the author of this file or run, add --trust, or give the name on the command line."
            )
        module, attribute = name.split(":", 1)
        _look_here_(module.partition(".")[0])
        return _attribute(module, attribute)
    if is_built_in(kind, name):
        return _attribute(f"{FOLDERS[kind]}.{name}", name)
    for point in entry_points(group=f"partita.{kind}", name=name):
        return _attribute(point.module, point.attr)
    one = "analysis" if kind == "analyses" else kind.removesuffix("s")
    raise PartitaError(unknown(one, name, names(kind)) + " Your own: 'package.module:function'.")


def described(kind: Kind, name: str) -> str:
    """One line about a name: its summary, or why it cannot be loaded."""
    try:
        return summary(get(kind, name))
    except PartitaError as problem:
        return str(problem)


def summary(function: Callable[..., Any]) -> str:
    """The first line of a docstring."""
    return (inspect.getdoc(function) or "").partition("\n")[0]


def _look_here_(package: str) -> None:
    """A module in the current folder is found too; after all others, so that it hides none of them."""
    here = Path.cwd()
    there = (here / f"{package}.py").is_file() or (here / package / "__init__.py").is_file()
    if there and importlib.util.find_spec(package) is None:
        sys.path.append(str(here))
        importlib.invalidate_caches()


def _attribute(module: str, attribute: str) -> Callable[..., Any]:
    try:
        found: object = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise PartitaError(
            f"Cannot load {attribute!r} of {module!r}: {error}. Is the package installed, or its folder on PYTHONPATH?"
        ) from error
    except Exception as error:
        # Code of others: importing it may end in anything.
        raise PartitaError(f"Cannot load {attribute!r} of {module!r}: {in_one_line(error)}.") from error
    if not callable(found):
        raise PartitaError(
            f"{module}:{attribute} is a {type(found).__name__}, not a function. Name a function or a class."
        )
    return found
