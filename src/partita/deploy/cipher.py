"""How is a state encrypted? With AES-256 in GCM mode, each of its parts bound to its place."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..errors import PartitaError
from ..extras import optional

KEY = 32
"""Bytes of a key."""
NONCE = 12


class Cipher:
    """A key. It does not open a state or a part that was moved to another place."""

    def __init__(self, key: Path) -> None:
        try:
            secret = key.read_bytes()
        except OSError as problem:
            raise PartitaError(f"Cannot read the key {key}: {problem.strerror}.") from problem
        if len(secret) != KEY:
            raise PartitaError(f"The key {key} has {len(secret)} bytes. Make one with: openssl rand -out {key} {KEY}")
        self._cipher: Any = optional("cryptography.hazmat.primitives.ciphers.aead", "partita[deploy]").AESGCM(secret)

    def sealed(self, parts: Iterable[bytes], place: bytes) -> Iterator[bytes]:
        """Each part is bound to its place in its state, by its number and what the first part begins with."""
        first = b""
        for number, part in enumerate(parts):
            nonce = os.urandom(NONCE)
            yield nonce + self._cipher.encrypt(nonce, part, b"%s %d " % (place, number) + first)
            first = first or nonce

    def opened(self, parts: Iterable[bytes], place: bytes) -> Iterator[bytes]:
        invalid: type[Exception] = optional("cryptography.exceptions", "partita[deploy]").InvalidTag
        first = b""
        for number, part in enumerate(parts):
            nonce, content = part[:NONCE], memoryview(part)[NONCE:]
            try:
                yield self._cipher.decrypt(nonce, content, b"%s %d " % (place, number) + first)
            except (invalid, ValueError) as problem:
                raise ValueError("the key does not open a state") from problem
            first = first or nonce
