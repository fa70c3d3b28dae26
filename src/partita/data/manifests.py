"""How is a division of data written down? As a file that others can check and rebuild bit for bit."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import PartitaError
from .pool import Pool, Texts
from .split import ROLES

if TYPE_CHECKING:
    from .federation import Federation

FORMAT = 1


def content_hash(pool: Pool) -> str:
    """SHA-256 of a pool's inputs and targets."""
    digest = hashlib.sha256()
    if isinstance(pool.inputs, Texts):
        digest.update(json.dumps(list(pool.inputs.words)).encode())
        arrays: list[np.ndarray] = [pool.inputs.tokens, pool.inputs.bounds, pool.targets.numpy()]
    else:
        arrays = [pool.inputs.numpy(), pool.targets.numpy()]
    _add_(digest, arrays)
    return digest.hexdigest()


def fingerprint(federation: "Federation") -> str:
    """SHA-256 of the data and of who has which rows in which role."""
    digest = hashlib.sha256()
    _add_(digest, _values(federation))
    for roles in federation.roles:
        for role in ROLES:
            digest.update(f"{role}{len(roles[role])}".encode())
            digest.update(np.ascontiguousarray(roles[role].numpy()).data)
    digest.update(repr(sorted(federation.newcomers)).encode())
    return digest.hexdigest()


def manifest_of(federation: "Federation") -> dict[str, Any]:
    """A federation's division of a pool, with its hash. Data that come divided have no pool; their own values count."""
    pool = federation.pool
    if pool is None:
        digest = hashlib.sha256()
        _add_(digest, _values(federation))
        content = digest.hexdigest()
    else:
        content = content_hash(pool)
    body = {
        "format": FORMAT,
        "data": federation.name,
        "rows": len(federation.samples),
        "content": content,
        "origin": dict(federation.origin),
        "newcomers": sorted(federation.newcomers),
        "clients": [
            {"name": name, **{role: rows[role].tolist() for role in ROLES}}
            for name, rows in zip(federation.names or repeat(""), federation.roles, strict=False)
        ],
    }
    # As it is read back, so that the hash is of what is written.
    plain: dict[str, Any] = json.loads(json.dumps(body, default=str))
    return {**plain, "hash": _hash(plain)}


def write(federation: "Federation", path: Path) -> str:
    """Write a federation's division of its pool; returns its hash."""
    made = manifest_of(federation)
    path.write_text(json.dumps(made), encoding="utf-8")
    return str(made["hash"])


def read(path: Path, pool: Pool) -> Mapping[str, Any]:
    """A manifest that is whole and fits the pool."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise PartitaError(f"Cannot read the manifest {path}: {problem.strerror}.") from problem
    except ValueError as problem:
        raise PartitaError(f"The manifest {path} is damaged: {problem}.") from problem
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise PartitaError(f"{path} is not a manifest of format {FORMAT}.")
    if body.pop("hash", None) != _hash(body):
        raise PartitaError(f"The manifest {path} was changed after it was written: its hash does not fit. Get it anew.")
    if body["rows"] != len(pool) or body["content"] != content_hash(pool):
        raise PartitaError(
            f"The manifest {path} was made for other data: {body['rows']} rows of {body['data']}, while {pool.name} "
            f"has {len(pool)} rows, or other values. Use the same files, in the same order."
        )
    return body


def _hash(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()


def _values(federation: "Federation") -> list[np.ndarray]:
    return [federation.samples.stored.numpy(), federation.samples.targets.numpy()]


def _add_(digest: "hashlib._Hash", arrays: Iterable[np.ndarray]) -> None:
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
