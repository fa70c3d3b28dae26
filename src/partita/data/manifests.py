"""How is a division of data written down? As a file that others can check and rebuild bit for bit."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import PartitaError
from ..parsing import parse_json
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
    """The manifest of a federation, with its hash. Data that come divided have no pool; their values are hashed."""
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
            for name, rows in zip(map(federation.name_of, range(len(federation))), federation.roles, strict=True)
        ],
    }
    # As it is read back, so that the hash is of what is written.
    plain: dict[str, Any] = json.loads(json.dumps(body, default=str))
    return {**plain, "hash": _hash(plain)}


def write(federation: "Federation", path: Path) -> str:
    """Write the manifest of a federation and return its hash."""
    made = manifest_of(federation)
    try:
        path.write_text(json.dumps(made), encoding="utf-8")
    except OSError as problem:
        raise PartitaError(f"Cannot write the manifest {path}: {problem.strerror}.") from problem
    return str(made["hash"])


def read(path: Path, pool: Pool) -> Mapping[str, Any]:
    """Read a manifest; it must be complete and fit the pool."""
    try:
        body = parse_json(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise PartitaError(f"Cannot read the manifest {path}: {problem.strerror}.") from problem
    except ValueError as problem:
        raise PartitaError(f"The manifest {path} is damaged: {problem}.") from problem
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise PartitaError(
            f"{path} is not a manifest of format {FORMAT}. Write one with: partita data split NAME --manifest FILE"
        )
    if body.pop("hash", None) != _hash(body):
        raise PartitaError(
            f"The manifest {path} was changed after it was written: its hash does not fit. Get a new copy."
        )
    if wrong := _wrong(body):
        raise PartitaError(f"{path} is not a manifest as Partita writes it: {wrong}.")
    if body["rows"] != len(pool) or body["content"] != content_hash(pool):
        raise PartitaError(
            f"The manifest {path} was made for other data: {body['rows']} rows of {body['data']}, while {pool.name} "
            f"has {len(pool)} rows, or other values. Use the same files, in the same order."
        )
    return body


def _wrong(body: Mapping[str, Any]) -> str | None:
    """What is wrong with the form of a manifest, if anything."""
    kinds = {"data": str, "rows": int, "content": str, "origin": dict, "newcomers": list, "clients": list}
    for key, kind in kinds.items():
        if type(body.get(key)) is not kind:
            return f"{key} is missing or of another type"
    for at, client in enumerate(body["clients"]):
        if type(client) is not dict or type(client.get("name")) is not str:
            return f"client {at} has no name"
        for role in ROLES:
            if not _numbers_below(body["rows"], client.get(role)):
                return f"the {role} rows of client {client['name'] or at} are not numbers of rows"
    if not _numbers_below(len(body["clients"]), body["newcomers"]):
        return "the newcomers are not numbers of clients"
    return None


def _numbers_below(end: int, values: object) -> bool:
    return type(values) is list and all(type(value) is int and 0 <= value < end for value in values)


def _hash(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, default=str).encode()).hexdigest()


def _values(federation: "Federation") -> list[np.ndarray]:
    return [federation.samples.stored.numpy(), federation.samples.targets.numpy()]


def _add_(digest: "hashlib._Hash", arrays: Iterable[np.ndarray]) -> None:
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
