"""Where is a data set's file? In the data folder, or fetched from its usual home: with progress, checked, resumable."""

import hashlib
import http.client
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import PartitaError

CHUNK = 1 << 20
Report = Callable[[str, int, int | None], None]
"""Told the file's name, the bytes at hand, and the bytes in all where known."""


@dataclass(frozen=True)
class Remote:
    """A file, where it is published, and its hash: MD5 or SHA-256 as published, or that of the first download."""

    name: str
    url: str
    md5: str | None = None
    sha256: str | None = None
    size: int | None = None


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
    found = [(remote, find(remote.name)) for remote in remotes]
    return [verified(path) if path else fetch(remote, cache_folder(), report) for remote, path in found]


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
    """Fetch a file; a part that an earlier attempt left is continued. It gets its name only when its hash fits.

    Where no hash is published, that of the first whole download is kept beside the file, and later ones must fit it.
    """
    path, part = folder / remote.name, folder / (remote.name + ".part")
    path.parent.mkdir(parents=True, exist_ok=True)
    with _reaching(remote.url, [remote.name]):
        while not _received(remote, part, report):
            pass
    _check(remote, part, path)
    part.replace(path)
    return path


def read_page(url: str, names: Sequence[str]) -> str:
    """A short text that tells where these files are, or their hash."""
    with _reaching(url, names), urllib.request.urlopen(url, timeout=60) as answer:
        content: bytes = answer.read(CHUNK)
    return content.decode(errors="replace")


def by_hand(names: Sequence[str]) -> str:
    """The way out where files cannot be fetched."""
    them, files = ("it", "file") if len(names) == 1 else ("them", "files")
    return (
        f"Put the {files} {' and '.join(names)} into {data_folders()[0]} yourself, or set PARTITA_DATA to the folder "
        f"that holds {them}."
    )


@contextmanager
def _reaching(url: str, names: Sequence[str]) -> Iterator[None]:
    """Whatever goes wrong on the network becomes an error that says which files to put where."""
    try:
        yield
    except (OSError, http.client.HTTPException) as problem:
        reason = problem if isinstance(problem, urllib.error.HTTPError) else getattr(problem, "reason", problem)
        if isinstance(problem, urllib.error.HTTPError):
            problem.close()
        raise PartitaError(f"Cannot fetch {url}: {reason}. {by_hand(names)}") from problem


def _check(remote: Remote, part: Path, path: Path) -> None:
    """Remove a part whose hash does not fit; keep the hash of the first download where none is published."""
    kind, right = ("MD5", remote.md5) if remote.md5 else ("SHA-256", remote.sha256 or _remembered(path))
    found = _digest(part, kind)
    if right is None:
        _note(path).write_text(f"{found}  {path.name}\n", encoding="utf-8")
        print(
            f"{remote.name}: no checksum of it is published. Its SHA-256 {found} is kept in {_note(path)} and checked "
            "from now on.",
            file=sys.stderr,
        )
    elif found != right:
        part.unlink()
        published = remote.md5 or remote.sha256
        raise PartitaError(
            f"{remote.url} is damaged or was changed: its {kind} is {found}, it should be {right}"
            f"{'' if published else ' as at the first download'}. It was removed; try again, or "
            + (
                f"put the right {remote.name} into {data_folders()[0]}."
                if published
                else f"delete {_note(path)} if the change is meant."
            )
        )


def verified(path: Path) -> Path:
    """The same file; an error if its SHA-256 is kept beside it and is no longer its own."""
    right = _remembered(path)
    if right is not None and (found := _digest(path, "SHA-256")) != right:
        raise PartitaError(
            f"{path} was changed since its hash was kept: its SHA-256 is {found}, and {_note(path)} says {right}. "
            "Remove the file to get it again, or that note if you trust the file."
        )
    return path


def _note(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _remembered(path: Path) -> str | None:
    """The first word of the note, as sha256sum writes it."""
    note = _note(path)
    words = note.read_text(encoding="utf-8").split() if note.exists() else []
    return words[0].lower() if words else None


def _received(remote: Remote, part: Path, report: Report | None) -> bool:
    """Whether all of it is here; if the connection was cut, but brought something, more is to be had at once."""
    before = _size(part)
    try:
        _receive(remote, part, report)
    except (OSError, http.client.HTTPException):
        if _size(part) <= before:
            raise
        return False
    return True


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _receive(remote: Remote, part: Path, report: Report | None) -> None:
    at_hand = _size(part)
    request = urllib.request.Request(remote.url, headers={"Range": f"bytes={at_hand}-"} if at_hand else {})
    try:
        answer = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as problem:
        if problem.code != 416:
            raise
        problem.close()
        # Nothing is left to send: the part is whole, or not of this file.
        whole = (problem.headers.get("Content-Range") or "").rpartition("/")[2]
        if whole.isdigit() and int(whole) != at_hand:
            part.unlink()
            raise OSError(f"the part at hand had {at_hand} bytes, the file has {whole}; try again") from problem
        return
    with answer:
        if answer.headers.get_content_type() == "text/html":
            # Such as a drive's page about its quota, or the page where a guest of a network signs in.
            raise OSError("it answers with a web page, not with the file; open that address to see why")
        if answer.status != 206:
            at_hand = 0
        length = answer.headers.get("Content-Length")
        total = at_hand + int(length) if length else remote.size
        with part.open("ab" if at_hand else "wb") as file:
            while block := answer.read(CHUNK):
                file.write(block)
                at_hand += len(block)
                if report:
                    report(remote.name, at_hand, total)
    if total is not None and at_hand < total:
        raise OSError(f"the connection ended after {at_hand} of {total} bytes; try again to continue")


def _digest(path: Path, kind: str) -> str:
    digest = hashlib.md5(usedforsecurity=False) if kind == "MD5" else hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()
