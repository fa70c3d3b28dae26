"""What takes the place of packages that a peer imports but the timed part does not need?"""

import importlib.machinery
import sys
import types
from typing import Any


class _Anything:
    """Is called, subclassed and asked for attributes, and answers with itself."""

    def __init__(self, *arguments: Any, **settings: Any) -> None: ...

    def __call__(self, *arguments: Any, **settings: Any) -> "_Anything":
        return self

    def __getattr__(self, name: str) -> "_Anything":
        return _Anything()


class _Module(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything


def stub(*names: str) -> None:
    """Makes `import NAME` succeed where the package is missing."""
    for name in names:
        try:
            __import__(name)
        except Exception:
            made = _Module(name)
            made.__path__ = []
            made.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
            sys.modules[name] = made
