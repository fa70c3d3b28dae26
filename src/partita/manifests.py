"""How is a division of data written down? As a file that others can check and rebuild bit for bit."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import PartitaError
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
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def fingerprint(federation: "Federation") -> str:
    """SHA-256 of the data and of who has which rows in which role."""
    digest = hashlib.sha256()
    for array in (federation.samples.stored.numpy(), federation.samples.targets.numpy()):
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    for roles in federation.roles:
        for role in ROLES:
            digest.update(f"{role}{len(roles[role])}".encode())
            digest.update(np.ascontiguousarray(roles[role].numpy()).data)
    digest.update(repr(sorted(federation.newcomers)).encode())
    return digest.hexdigest()


def write(pool: Pool, federation: "Federation", path: Path) -> str:
    """Write a federation's division of a pool; returns its hash."""
    body = {
        "format": FORMAT,
        "data": pool.name,
        "rows": len(pool),
        "content": content_hash(pool),
        "origin": dict(federation.origin),
        "newcomers": sorted(federation.newcomers),
        "clients": [
            {"name": name, **{role: rows[role].tolist() for role in ROLES}}
            for name, rows in zip(federation.names, federation.roles, strict=True)
        ],
    }
    digest = _hash(body)
    path.write_text(json.dumps({**body, "hash": digest}, default=str), encoding="utf-8")
    return digest


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
