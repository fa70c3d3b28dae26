"""Partita: personalized federated learning by partial-model personalization.

>>> from partita import digits, fedper, mlp, simulate
>>> result = simulate(fedper(), mlp, digits(clients=5), rounds=2)
>>> result.accuracy().clients
5

The names are listed in `__init__.pyi`; every algorithm, model and data source can be imported from here too.
"""

from typing import Any

import lazy_loader

__version__ = "0.1.0"

# Names are loaded when they are used, so that importing the package, and the command line's help, is quick.
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name not in __all__ and not name.startswith("_"):
        from . import registry

        for kind in registry.KINDS:
            if name in registry.names(kind):
                return registry.get(kind, name)
    return _load(name)
