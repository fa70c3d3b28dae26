"""How do sites hide their updates in a sum? By masks that cancel: the protocol SecAgg (Bonawitz et al., 2017).

Each pair of sites agrees on a mask, which one adds and the other subtracts, and each site adds a mask of its own. What
the server gets looks random; in the sum of all, pairs cancel. The seed of the own mask and the key of the pairs are
shared among the sites so that any `threshold` of them can open one of the two, never both: the seed of a site whose
vector is in the sum, the key of a site that was lost.

Key agreement, encryption and Shamir's sharing are Flower's. Its masks are not used: `pseudo_rand_gen` of flwr 1.41
folds its seed into 32 bits, of which those of pairs have 28, so that a server can try them all. Here a mask is the key
stream of AES-256 in counter mode. Vectors are whole numbers modulo 2^64, so nothing is clipped.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from ..errors import PartitaError
from ..extras import optional
from ..tensors import Tensors

PUBLIC, PRIVATE, SEED = 97, 48, 32
"""Bytes of a public key, of a private one and of a seed."""
Keys = tuple[bytes, bytes]
"""Two public keys: that of pairs' masks, and that of messages between sites."""


class Member:
    """One site in the sum of one round. Its secrets are in memory, and end with the round."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._pairs, self._messages = _new_key(), _new_key()
        self._seed = os.urandom(SEED)
        self._keys: Mapping[int, Keys] = {}
        self._threshold = 0
        self._held: dict[int, tuple[bytes, bytes]] = {}
        """The shares of the seed and of the key of each site in the sum."""
        self._opened = False

    @property
    def keys(self) -> Keys:
        return _public(self._pairs), _public(self._messages)

    def shares(self, keys: Mapping[int, Keys], threshold: int) -> dict[int, bytes]:
        """An envelope for each other site, with its shares of this site's secrets."""
        flat = [key for pair in keys.values() for key in pair]
        if keys.get(self.number) != self.keys or len(set(flat)) != len(flat):
            raise PartitaError("The keys for the sum are not those of this site, or one comes twice.")
        # With less than half, the server could have both secrets of a site opened by two halves of the others.
        if self._keys or len(keys) < 3 or not len(keys) < 2 * threshold <= 2 * len(keys):
            raise PartitaError(
                f"A sum of {len(keys)} sites that {threshold} of them can open, or a second sum in a round, is refused."
            )
        self._keys, self._threshold = dict(keys), threshold
        create = _flower("shamir").create_shares
        seeds, secrets = (create(each, threshold, len(keys)) for each in (self._seed, _private(self._pairs)))
        ordered = dict(zip(sorted(keys), zip(seeds, secrets, strict=True), strict=True))
        self._held[self.number] = ordered.pop(self.number)
        encrypt = _flower("symmetric_encryption").encrypt
        return {
            other: encrypt(self._common(other, self._messages, 1), _joined(self.number, other, *mine))
            for other, mine in ordered.items()
        }

    def masked(self, envelopes: Mapping[int, bytes], vector: Tensors) -> Tensors:
        """Whole numbers (int64) with all masks; the sum is over this site and those whose envelopes came."""
        if len(self._held) > 1 or len(envelopes) + 1 < self._threshold or not self._threshold:
            raise PartitaError("This site masks once, after the envelopes of enough others came.")
        self._held |= {other: self._opened_envelope(other, envelope) for other, envelope in envelopes.items()}
        total = {name: tensor.clone() for name, tensor in vector.items()}
        _add_(total, self._seed, 1)
        for other in envelopes:
            _add_(total, self._common(other, self._pairs, 0), 1 if self.number > other else -1)
        return total

    def revealed(self, there: Iterable[int], lost: Iterable[int]) -> dict[int, bytes]:
        """Shares of the seeds of sites whose vectors are there, and of the keys of those that were lost. Once."""
        here, gone = set(there), set(lost)
        if self._opened or here & gone or here | gone != self._held.keys() or self.number not in here:
            raise PartitaError(
                "This site opens one secret of each site in the sum, once. Any other request is refused."
            )
        if len(here) < self._threshold:
            raise PartitaError(f"The sum would be of {len(here)} sites, and at least {self._threshold} must be in it.")
        self._opened = True
        return {other: self._held[other][0 if other in here else 1] for other in here | gone}

    def _common(self, other: int, own: Any, which: int) -> bytes:
        if other not in self._keys:
            raise PartitaError(f"Site {other} gave no key for this sum.")
        shared: bytes = _flower("symmetric_encryption").generate_shared_key(own, _read_public(self._keys[other][which]))
        return shared

    def _opened_envelope(self, other: int, envelope: bytes) -> tuple[bytes, bytes]:
        decrypt = _flower("symmetric_encryption").decrypt
        invalid: type[Exception] = optional("cryptography.fernet", "partita[flower]").InvalidToken
        try:
            sender, receiver, seed, secret = _separate(decrypt(self._common(other, self._messages, 1), envelope))
        except (invalid, ValueError) as problem:
            raise PartitaError(f"The envelope of site {other} cannot be opened.") from problem
        if (sender, receiver) != (other, self.number):
            raise PartitaError(f"The envelope of site {other} is from {sender} to {receiver}.")
        return seed, secret


def unmasked(
    vectors: Mapping[int, Tensors],
    keys: Mapping[int, Keys],
    shares: Mapping[int, Mapping[int, bytes]],
    lost: Iterable[int],
) -> Tensors:
    """The sum of all vectors; `shares` are by the site that revealed them, then by the site that they are of."""
    combine = _flower("shamir").combine_shares
    total = {name: torch.zeros_like(tensor) for name, tensor in next(iter(vectors.values())).items()}
    for vector in vectors.values():
        for name, tensor in vector.items():
            total[name] += tensor
    for number in vectors:
        _add_(total, combine([each[number] for each in shares.values()]), -1)
    generate = _flower("symmetric_encryption").generate_shared_key
    for gone in lost:
        secret = _read_private(combine([each[gone] for each in shares.values()]))
        if _public(secret) != keys[gone][0]:
            raise PartitaError(f"The shares of site {gone}'s key do not make its key.")
        for number in vectors:
            # What `number` added for the pair is still in the sum.
            _add_(total, generate(secret, _read_public(keys[number][0])), -1 if number > gone else 1)
    return total


def _add_(total: Tensors, seed: bytes, sign: int) -> None:
    """Add or take away the mask of a seed, over all tensors in the order of their names."""
    ciphers = optional("cryptography.hazmat.primitives.ciphers", "partita[flower]")
    key = hashlib.sha256(b"partita mask" + seed).digest()
    stream = ciphers.Cipher(ciphers.algorithms.AES(key), ciphers.modes.CTR(bytes(16))).encryptor()
    for name in sorted(total):
        mask = torch.from_numpy(np.frombuffer(stream.update(bytes(8 * total[name].numel())), dtype="<i8").copy())
        # In 64 bits sums wrap around.
        total[name].add_(mask.view(total[name].shape), alpha=sign)


def _flower(name: str) -> Any:
    return optional(f"flwr.common.secure_aggregation.crypto.{name}", "partita[flower]")


def _curve() -> Any:
    return optional("cryptography.hazmat.primitives.asymmetric.ec", "partita[flower]")


def _new_key() -> Any:
    return _curve().generate_private_key(_curve().SECP384R1())


def _private(key: Any) -> bytes:
    number: int = key.private_numbers().private_value
    return number.to_bytes(PRIVATE, "big")


def _read_private(key: bytes) -> Any:
    return _curve().derive_private_key(int.from_bytes(key, "big"), _curve().SECP384R1())


def _public(key: Any) -> bytes:
    forms = optional("cryptography.hazmat.primitives.serialization", "partita[flower]")
    found: bytes = key.public_key().public_bytes(forms.Encoding.X962, forms.PublicFormat.UncompressedPoint)
    return found


def _read_public(key: bytes) -> Any:
    try:
        return _curve().EllipticCurvePublicKey.from_encoded_point(_curve().SECP384R1(), key)
    except ValueError as problem:
        raise PartitaError("A key for the sum is not valid.") from problem


def _joined(sender: int, receiver: int, seed: bytes, secret: bytes) -> bytes:
    return b"".join(each.to_bytes(8, "little") for each in (sender, receiver, len(seed))) + seed + secret


def _separate(text: bytes) -> tuple[int, int, bytes, bytes]:
    sender, receiver, length = (int.from_bytes(text[at : at + 8], "little") for at in (0, 8, 16))
    return sender, receiver, text[24 : 24 + length], text[24 + length :]
