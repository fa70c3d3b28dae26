"""Where is a data set's file? In the data folder, or fetched from its usual home: with progress, checked, resumable."""

import hashlib
import http.client
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import PartitaError

CHUNK = 1 << 20
Report = Callable[[str, int, int | None], None]
"""Told the file's name, the bytes at hand, and the bytes in all where known."""


@dataclass(frozen=True)
class Remote:
    """A file, where it is published, and the hash that it must have."""

    name: str
    url: str
    md5: str


def data_folders() -> list[Path]:
    """`PARTITA_DATA` (several folders may be joined as in PATH), then the cache folder, where downloads go."""
    given = [Path(folder).expanduser() for folder in os.environ.get("PARTITA_DATA", "").split(os.pathsep) if folder]
    return [*given, cache_folder()]


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "partita"


def find(*names: str) -> Path | None:
    """The first of these names that stands in a data folder."""
    for folder in data_folders():
        for name in names:
            if (folder / name).exists():
                return folder / name
    return None


def obtain(remotes: Sequence[Remote], report: Report | None = None) -> list[Path]:
    """Each file from a data folder, or fetched into the cache, by default with lines of progress on stderr."""
    report = report or progress_lines()
    return [find(remote.name) or fetch(remote, cache_folder(), report) for remote in remotes]


def progress_lines() -> Report:
    """A line on stderr for every tenth of a file, or for every 10 MB where its length is not known."""
    steps: dict[str, int] = {}

    def report(name: str, at_hand: int, total: int | None) -> None:
        step = at_hand * 10 // total if total else at_hand // 10_000_000
        if steps.get(name) != step:
            steps[name] = step
            of_all = f" of {total / 1e6:.1f} MB ({step * 10} %)" if total else " MB"
            print(f"{name}: {at_hand / 1e6:.1f}{of_all}", file=sys.stderr)

    return report


def fetch(remote: Remote, folder: Path, report: Report | None = None) -> Path:
    """Fetch a file; a part that an earlier attempt left is continued. It gets its name only when its hash fits."""
    path, part = folder / remote.name, folder / (remote.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        _receive(remote, part, report)
    except (OSError, http.client.HTTPException) as problem:
        reason = problem if isinstance(problem, urllib.error.HTTPError) else getattr(problem, "reason", problem)
        raise PartitaError(
            f"Cannot fetch {remote.url}: {reason}. Put the file {remote.name} into {data_folders()[0]} yourself, or "
            "set PARTITA_DATA to the folder that holds it."
        ) from problem
    if (found := _md5(part)) != remote.md5:
        part.unlink()
        raise PartitaError(
            f"{remote.url} is damaged or was changed: its MD5 is {found}, it should be {remote.md5}. It was removed; "
            f"try again, or put the right {remote.name} into {data_folders()[0]}."
        )
    part.replace(path)
    return path


def _receive(remote: Remote, part: Path, report: Report | None) -> None:
    at_hand = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(remote.url, headers={"Range": f"bytes={at_hand}-"} if at_hand else {})
    try:
        answer = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as problem:
        problem.close()
        if problem.code == 416:
            # Nothing is left to send: the part is whole.
            return
        raise
    with answer:
        if answer.status != 206:
            at_hand = 0
        length = answer.headers.get("Content-Length")
        total = at_hand + int(length) if length else None
        with part.open("ab" if at_hand else "wb") as file:
            while block := answer.read(CHUNK):
                file.write(block)
                at_hand += len(block)
                if report:
                    report(remote.name, at_hand, total)
    if total is not None and at_hand < total:
        raise OSError(f"the connection ended after {at_hand} of {total} bytes; try again to continue")


def _md5(path: Path) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while block := file.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()
