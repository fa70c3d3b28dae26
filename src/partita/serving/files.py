"""How does a folder come to be as a whole? It is written under another name; and how are files named after clients?"""

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from ..errors import PartitaError
from .card_files import CARD

MOST_CHARACTERS = 120
"""The largest length of the name of a client's file; a longer one is cut, and ends in a hash."""


@contextmanager
def new_folder(folder: Path, force: bool) -> Iterator[Path]:
    """A folder to write into, which gets its name at the end; until then, whatever has that name stays."""
    if os.path.lexists(folder) and not force and not (folder.is_dir() and not any(folder.iterdir())):
        raise PartitaError(f"{folder} is there already. Choose another folder, or replace it with --force.")
    if (
        force
        and os.path.lexists(folder)
        and not (folder / CARD).is_file()
        and (not folder.is_dir() or any(folder.iterdir()))
    ):
        raise PartitaError(f"{folder} does not hold exported models, and is not replaced. Choose another folder.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as problem:
        raise PartitaError(f"Cannot write to {folder.parent}: {problem.strerror}.") from problem
    old = place.with_name(place.name + "-old")
    try:
        yield place
        place.chmod(0o777 & ~_umask())
        if os.path.lexists(folder):
            folder.rename(old)
        place.rename(folder)
    except OSError as problem:
        raise PartitaError(f"Cannot write {folder}: {problem.strerror or problem}.") from problem
    finally:
        if old.exists() and not folder.exists():
            old.rename(folder)
        for left in (place, old):
            shutil.rmtree(left, ignore_errors=True)


def file_names(clients: Iterable[str]) -> dict[str, str]:
    """A name for each client's file, without an ending."""
    name = FileNames()
    return {client: name(client) for client in clients}


class FileNames:
    """Names for clients' files, without an ending, that every file system takes and keeps apart."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def __call__(self, client: str) -> str:
        content = client.encode("utf-8", "surrogatepass")
        name = quote(content, safe=" ")
        if (
            len(name) > MOST_CHARACTERS
            or name.casefold() in self._taken
            or name.startswith(".")
            or name != name.strip()
        ):
            name = f"{name[:MOST_CHARACTERS].strip(' .')}-{sha256(content).hexdigest()[:16]}"
        self._taken.add(name.casefold())
        return name


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
