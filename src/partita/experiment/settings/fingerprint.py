"""Are these the same objects as before? A fingerprint covers the values of an object and the code that it runs."""

import hashlib

from torch import Tensor

from ...errors import PartitaError
from .code import Code
from .parts import Parts, Value, parts_of, plain_text


def fingerprint(thing: object) -> str:
    """The fingerprint of an object. Objects that are made the same way have the same one, in any process.

    It has two halves, of the code and of the values. Functions and classes count with their compiled code, with what
    they close over and with the globals that they use; code of Python, torch, numpy, Partita and installed packages
    counts by name. Tensors and arrays count with their bytes; 1 and 1.0 are the same number. What is computed once and
    remembered (`cached_property`, `lru_cache`) does not count, nor whether a module is in training mode.
    """
    code, values = _Walk().digests(thing)
    return f"{code.hex()}-{values.hex()}"


def same_code(one: str, other: str) -> bool:
    """Whether two fingerprints have the same code; their values may differ."""
    return one.partition("-")[0] == other.partition("-")[0]


class _Visit:
    """An object whose parts are being visited, and their digests so far."""

    def __init__(self, thing: object, parts: Parts) -> None:
        self.thing, self.parts = thing, parts
        self._code, self._values = (hashlib.blake2b(digest_size=16) for _ in range(2))

    def add(self, code: bytes, values: bytes) -> None:
        for digest, part in ((self._code, code), (self._values, values)):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)

    @property
    def digests(self) -> tuple[bytes, bytes]:
        return self._code.digest(), self._values.digest()


class _Walk:
    """Visit an object and everything it consists of.

    It does not recurse, because functions that use each other may form a long chain. An object in two places counts
    as two equal objects, except for tensors: tied weights are trained together.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[bytes, bytes]] = {}
        # Temporary objects are kept alive, so that no other object gets their address.
        self._held: list[object] = []
        self._tensors = 0

    def digests(self, thing: object) -> tuple[bytes, bytes]:
        first = _Visit(None, iter([thing]))
        visits, depths = [first], dict[int, int]()
        while visits:
            visit = visits[-1]
            part = self._next(visit)
            if part is visit:
                visits.pop()
                if visits:
                    del depths[id(visit.thing)]
                    self._known[id(visit.thing)] = visit.digests
                    visits[-1].add(*visit.digests)
            elif isinstance(part, Code):
                visit.add(part, b"")
            elif isinstance(part, Value):
                visit.add(b"", part)
            elif (text := plain_text(part)) is not None:
                visit.add(b"", text.encode())
            elif id(part) in self._known:
                visit.add(*self._known[id(part)])
            elif id(part) in depths:
                visit.add(b"", f"cycle:{len(visits) - depths[id(part)]}".encode())
            else:
                depths[id(part)] = len(visits)
                visits.append(self._begin(part))
        return first.digests

    def _begin(self, thing: object) -> _Visit:
        self._held.append(thing)
        visit = _Visit(thing, parts_of(thing, fingerprint))
        if isinstance(thing, Tensor):
            self._tensors += 1
            visit.add(b"", f"tensor {self._tensors}".encode())
        return visit

    def _next(self, visit: _Visit) -> object:
        """The next part, or the visit itself when there are no more."""
        try:
            return next(visit.parts, visit)
        except PartitaError:
            raise
        except Exception as problem:
            # The user's objects may raise any error when their attributes and state are read.
            raise PartitaError(
                f"The experiment uses a {type(visit.thing).__name__}, which cannot be compared with that of a later "
                f"call: {problem}. Use plain values, tensors or dataclasses instead, or partita.simulate, which keeps "
                "nothing."
            ) from problem
