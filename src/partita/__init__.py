"""Partita: personalized federated learning by partial-model personalization.

>>> from partita import digits, fedper, mlp, simulate
>>> result = simulate(fedper(), mlp, digits(), rounds=2)
>>> result.score().clients
20

The names are listed in `__init__.pyi`: among them every algorithm, server, model, data source, split, executor
and analysis.
"""

import lazy_loader

__version__ = "0.2.0"

# Names are loaded when they are used, so that importing the package, and the command line's help, is quick.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
