"""Is an optional dependency installed? If not, the error says how to install it."""

from importlib import import_module
from typing import Any

from .errors import PartitaError


def optional(module: str, package: str) -> Any:
    """Import a module of an optional dependency."""
    try:
        return import_module(module)
    except ImportError as problem:
        raise PartitaError(
            f"This needs a package that is not installed: pip install {package!r} ({problem})."
        ) from None
