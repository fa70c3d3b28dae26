"""Partita: personalized federated learning by partial-model personalization.

>>> from partita import digits, fedper, mlp, simulate
>>> result = simulate(fedper(), mlp, digits(), rounds=2)
>>> result.accuracy().clients
20

The names are listed in `__init__.pyi`; every algorithm, model and data source can be imported from here too.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import lazy_loader

__version__ = "0.1.0"

# Names are loaded when they are used, so that importing the package, and the command line's help, is quick.
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name in __all__ or name.startswith("_") or find_spec(f"{__name__}.{name}"):
        return _load(name)
    registry = import_module(f"{__name__}.registry")
    for kind in registry.KINDS:
        if name in registry.names(kind):
            return registry.get(kind, name)
    return _load(name)
