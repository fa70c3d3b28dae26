"""Where is a data set's file? In the data folder, or fetched from its usual home: with progress, checked, resumable."""

import http.client
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import PartitaError
from .checksums import digest, note_of, remember, remembered, verified

CHUNK = 1 << 20
Report = Callable[[str, int, int | None], None]
"""Called with the file's name, the bytes received so far, and the size of the file where it is known."""


@dataclass(frozen=True)
class Remote:
    """A file, where it is published, and its published MD5 or SHA-256. Without one, the first download counts."""

    name: str
    url: str
    md5: str | None = None
    sha256: str | None = None
    size: int | None = None

    @property
    def published(self) -> bool:
        """Whether its hash is known before it is fetched."""
        return bool(self.md5 or self.sha256)


def data_folders() -> list[Path]:
    """`PARTITA_DATA` (several folders may be joined as in PATH), then the cache folder, where downloads go."""
    given = [Path(folder).expanduser() for folder in os.environ.get("PARTITA_DATA", "").split(os.pathsep) if folder]
    return [*given, cache_folder()]


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "partita"


def find(*names: str) -> Path | None:
    """The path of the first of these names that exists in a data folder."""
    for folder in data_folders():
        for name in names:
            if (folder / name).exists():
                return folder / name
    return None


def obtain(remotes: Sequence[Remote], report: Report | None = None) -> list[Path]:
    """Find each file in a data folder, or fetch it into the cache; by default, progress is printed to stderr."""
    report = report or progress_lines()
    found = [(remote, find(remote.name)) for remote in remotes]
    return [verified(path) if path else fetch(remote, cache_folder(), report) for remote, path in found]


def progress_lines() -> Report:
    """Print a line to stderr for every tenth of a file, or for every 10 MB where its length is not known."""
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
    One process at a time fetches a file; others wait and take what it got.
    """
    path, part = folder / remote.name, folder / (remote.name + ".part")
    with alone(path):
        if path.exists():
            return verified(path)
        with _reaching(remote.url, [remote.name]):
            while not _received(remote, part, report):
                pass
        _check(remote, part, path)
        with writing(path):
            part.replace(path)
    return path


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock for making a file. Other processes wait until this one is done, or has died."""
    lock = FileLock(path.with_name(path.name + ".lock"))
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            print(f"{path.name}: another process is fetching or unpacking it; waiting.", file=sys.stderr)
            lock.acquire()
    try:
        yield
    finally:
        # Removed while it is held: filelock tries again when it gets the lock of a file that was removed.
        with suppress(OSError):
            os.unlink(lock.lock_file)
        lock.release()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an error of the disk into one that says what to do."""
    try:
        yield
    except OSError as problem:
        raise PartitaError(
            f"Cannot write {path}: {problem.strerror or problem}. Make room, or set XDG_CACHE_HOME to a folder that "
            "you can write to."
        ) from problem


def read_page(url: str, names: Sequence[str]) -> str:
    """Read a short page that says where these files are, or what their hash is."""
    with _reaching(url, names), urllib.request.urlopen(url, timeout=60) as answer:
        content: bytes = answer.read(CHUNK)
    return content.decode(errors="replace")


def by_hand(names: Sequence[str]) -> str:
    """What to do when files cannot be fetched."""
    them, files = ("it", "file") if len(names) == 1 else ("them", "files")
    return (
        f"Put the {files} {' and '.join(names)} into {data_folders()[0]} yourself, or set PARTITA_DATA to the folder "
        f"that holds {them}."
    )


@contextmanager
def _reaching(url: str, names: Sequence[str]) -> Iterator[None]:
    """Turn any error of the network into one that says which files to put where."""
    try:
        yield
    except (OSError, http.client.HTTPException) as problem:
        reason = problem if isinstance(problem, urllib.error.HTTPError) else getattr(problem, "reason", problem)
        if isinstance(problem, urllib.error.HTTPError):
            problem.close()
        raise PartitaError(f"Cannot fetch {url}: {reason}. {by_hand(names)}") from problem


def _check(remote: Remote, part: Path, path: Path) -> None:
    """Remove a part whose hash does not fit; keep the hash of the first download where none is published."""
    kind, right = ("MD5", remote.md5) if remote.md5 else ("SHA-256", remote.sha256 or remembered(path))
    found = digest(part, kind)
    if right is None:
        with writing(path):
            remember(path, found)
        print(
            f"{remote.name}: no checksum of it is published. Its SHA-256 {found} is kept in {note_of(path)} and "
            "checked from now on.",
            file=sys.stderr,
        )
    elif found != right:
        part.unlink()
        raise PartitaError(
            f"{remote.url} is damaged or was changed: its {kind} is {found}, but should be {right}"
            f"{'' if remote.published else ' as at the first download'}. It was removed; try again, or "
            + (
                f"put the right {remote.name} into {data_folders()[0]}."
                if remote.published
                else f"delete {note_of(path)} if the change is meant."
            )
        )


def _received(remote: Remote, part: Path, report: Report | None) -> bool:
    """Return whether the file is complete. A cut connection that brought something is worth another attempt."""
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
        if whole != str(at_hand) and (whole.isdecimal() or not remote.published):
            part.unlink()
            raise OSError(
                f"the partial download had {at_hand} bytes, and the file has {whole or 'another number'}; try again"
            ) from problem
        return
    with answer:
        if answer.headers.get_content_type() == "text/html":
            # Such as a drive's page about its quota, or the page where a guest of a network signs in.
            raise OSError("it answers with a web page, not with the file; open that address to see why")
        if answer.status != 206:
            at_hand = 0
        total = _total(answer, at_hand, remote)
        with writing(part):
            file = part.open("ab" if at_hand else "wb")
        with file:
            while block := answer.read(CHUNK):
                with writing(part):
                    file.write(block)
                at_hand += len(block)
                if report:
                    report(remote.name, at_hand, total)
    if total is not None and at_hand < total:
        raise OSError(f"the connection ended after {at_hand} of {total} bytes; try again to continue")
    if _size(part) != at_hand or (total is not None and at_hand != total):
        held = _size(part)
        part.unlink()
        raise OSError(f"{held} bytes were received, and {at_hand if total is None else total} were expected; try again")


def _total(answer: http.client.HTTPResponse, at_hand: int, remote: Remote) -> int | None:
    """The length of the whole file, or None where the server does not give a number."""
    promised = answer.headers.get("Content-Range")
    if answer.status == 206 and promised and not re.match(rf"bytes {at_hand}-", promised):
        raise OSError(f"it was asked for the bytes from {at_hand} on, and it sends {promised!r}")
    length = answer.headers.get("Content-Length") or ""
    if length.isdecimal():
        return at_hand + int(length)
    if remote.size is None and not remote.published and not answer.chunked:
        raise OSError("it does not state the length of the file, so a complete download cannot be verified")
    return remote.size
