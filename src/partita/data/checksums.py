"""Is a file still what it was? By its SHA-256, which is kept beside it as FILE.sha256."""

import hashlib
import os
import re
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from ..errors import PartitaError

_CHUNK = 1 << 20
_SETTLED = 2_000_000_000
"""Nanoseconds. A file changed more recently could change again without a new modification time."""


def digest(path: Path, kind: str) -> str:
    """The MD5 or SHA-256 of a file."""
    found = hashlib.md5(usedforsecurity=False) if kind == "MD5" else hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_CHUNK):
            found.update(block)
    return found.hexdigest()


def note_of(path: Path) -> Path:
    """The file beside a file that holds its SHA-256, as sha256sum writes it."""
    return path.with_name(path.name + ".sha256")


def remembered(path: Path) -> str | None:
    """The SHA-256 that is kept beside a file, if one is."""
    note = note_of(path)
    if not note.exists():
        return None
    found = re.match(r"[0-9a-f]{64}\b", note.read_text(encoding="utf-8", errors="replace").lower())
    if found is None:
        raise PartitaError(f"{note} does not begin with a SHA-256. Remove it, or write it with sha256sum.")
    return found[0]


def remember(path: Path, sha256: str) -> None:
    """Keep the SHA-256 of a file beside it."""
    _write(note_of(path), f"{sha256}  {path.name}\n")


def verified(path: Path) -> Path:
    """Return the path; raise if the file no longer has the SHA-256 that is kept beside it.

    A file is hashed once: while its size and modification time stay the same, it counts as unchanged.
    """
    right = remembered(path)
    if right is None:
        return path
    about, note = path.stat(), note_of(path)
    seen = f"# checked: {about.st_size} bytes, changed at {about.st_mtime_ns}"
    lines = note.read_text(encoding="utf-8", errors="replace").splitlines()
    if seen in lines:
        return path
    if (found := digest(path, "SHA-256")) != right:
        raise PartitaError(
            f"{path} was changed since its hash was kept: its SHA-256 is {found}, and {note} says {right}. "
            "Remove the file to get it again, or that note if you trust the file."
        )
    if time.time_ns() - about.st_mtime_ns > _SETTLED:
        # Where the folder cannot be written to, the file is read each time.
        with suppress(OSError):
            _write(note, "\n".join([*(line for line in lines if not line.startswith("# checked: ")), seen, ""]))
    return path


def _write(path: Path, text: str) -> None:
    """Write under a temporary name first, so that no other process sees half a file."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
