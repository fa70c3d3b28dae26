"""How are files read that may stand in a folder or in an archive? In memory; only databases are unpacked to disk."""

import gzip
import io
import lzma
import os
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from ...errors import PartitaError
from ..arrays import check_unpacked, open_zip, reading
from ..download import CHUNK, alone, progress_lines, writing


def read_bytes(path: Path) -> bytes:
    """A file's content, decompressed where its name ends in .gz."""
    with reading(path, "a gzip file" if path.suffix == ".gz" else "a file"):
        content = path.read_bytes()
        return _gunzipped(content, path) if path.suffix == ".gz" else content


def _gunzipped(content: bytes, where: Path | str) -> bytes:
    blocks, size = [], 0
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
        while block := stream.read(CHUNK):
            size += len(block)
            check_unpacked(where, len(content), size)
            blocks.append(block)
    return b"".join(blocks)


class Tree:
    """A folder, or a zip file looked at like one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._archive: zipfile.ZipFile | None = None
        if not path.is_dir():
            with reading(path, "a zip file"):
                self._archive = open_zip(path)
        self._names = frozenset(self._archive.namelist() if self._archive else ())
        self._folders: dict[str, list[str]] = {}
        for name in sorted(self._names):
            self._folders.setdefault(name.rpartition("/")[0], []).append(name)

    def __enter__(self) -> "Tree":
        return self

    def __exit__(self, *_: object) -> None:
        if self._archive:
            self._archive.close()

    def has(self, name: str) -> bool:
        return name in self._names if self._archive else (self.path / name).is_file()

    def read(self, name: str) -> bytes:
        """A file by its path below this one; never one outside."""
        plain(name, self.path)
        if not self.has(name):
            raise PartitaError(
                f"{self.path} has no file {name}. Is it another folder or archive, or truncated? Get it again."
            )
        if self._archive is None:
            return read_bytes(self.path / name)
        with reading(f"{self.path}: {name}", "a part of a zip file"):
            content = self._archive.read(name)
            return _gunzipped(content, f"{self.path}: {name}") if name.endswith(".gz") else content

    def read_text(self, name: str) -> str:
        """A list or a table, in UTF-8."""
        content = self.read(name)
        with reading(f"{self.path}: {name}", "text in UTF-8"):
            return content.decode()

    def files(self, folder: str) -> list[str]:
        """The files in a folder, sorted."""
        if self._archive is None:
            base = self.path / folder
            return [f"{folder}/{each}" for each in sorted(os.listdir(base))] if base.is_dir() else []
        return [name for name in self._folders.get(folder, ()) if not name.endswith("/")]


def plain(name: str, where: Path | str) -> str:
    """Return the name of a file below a folder; refuse a name that leads elsewhere."""
    path = PurePosixPath(name)
    if not name or path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name:
        raise PartitaError(f"{where} names the file {name!r}, which is not a path below the data's folder.")
    return name


def read_tar(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """These members of a tar file, in one pass; all others are skipped."""
    found: dict[str, bytes] = {}
    for name, content in tar_files(path, names.__contains__):
        found[name] = content
        if len(found) == len(names):
            return found
    lacking = [name for name in names if name not in found]
    raise PartitaError(f"{path} lacks {', '.join(lacking)}. Is it another archive, or truncated? Get it again.")


def tar_files(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """The wanted files of a tar file, by name; links and all others are skipped."""
    with reading(path, "a tar file"), tarfile.open(path) as archive:
        for member in archive:
            # Also what is skipped must be unpacked.
            check_unpacked(path, path.stat().st_size, member.offset_data + member.size)
            name = member.name.removeprefix("./")
            if member.isfile() and wanted(name):
                content = archive.extractfile(member)
                assert content is not None
                yield name, content.read()


def unpacked(path: Path) -> Path:
    """Unpack a .lzma file beside it; the result gets its name only when it is complete."""
    target = path.with_suffix("")
    with alone(target):
        if not target.exists():
            _unpack(path, target)
    return target


def _unpack(path: Path, target: Path) -> None:
    part, report = target.with_name(target.name + ".part"), progress_lines()
    size = 0
    with writing(part):
        file = part.open("wb")
    with file, reading(path, "an LZMA file"), lzma.open(path) as source:
        while block := _block(source):
            size += len(block)
            check_unpacked(path, path.stat().st_size, size)
            with writing(part):
                file.write(block)
            report(f"{target.name} is unpacked", size, None)
    with writing(target):
        part.replace(target)


def _block(source: lzma.LZMAFile) -> bytes:
    try:
        return source.read(CHUNK)
    except lzma.LZMAError as problem:
        raise ValueError(problem) from problem
