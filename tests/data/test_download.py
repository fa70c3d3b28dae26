"""Downloads from a server on this machine: whole, resumed, damaged, missing and unreachable.

One file, since everything is fetched from one server, which can do all that goes wrong.
"""

import gzip
import hashlib
import io
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from data.test_sources import (
    FLICKR,
    MNIST,
    RATINGS,
    SPEECHES,
    database,
    femnist_rows,
    hapt_files,
    inputs_of,
    owners,
    pillow as pillow,
    plain_colour,
    ppm,
    questions,
    texts_of,
    writer_files,
    zipped,
)
from partita.data import checksums, download
from partita.data.checksums import verified
from partita.data.download import Remote, data_folders, fetch, find, obtain, progress_lines
from partita.data.sources import (
    _drive,
    _landmarks,
    femnist,
    hapt,
    mnist,
    mnist_writers,
    movielens,
    shakespeare,
    stackoverflow,
)
from partita.data.sources.flickr_aes import ARCHIVE, TABLE, flickr_aes
from partita.data.sources.gldv2 import gldv2
from partita.errors import PartitaError

CONTENT = bytes(range(256)) * 8192
HALF = len(CONTENT) // 2


class Server(ThreadingHTTPServer):
    """Serves one file, by ranges unless told otherwise; can cut the connection."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.end: int | None = None
        """All connections are cut at this byte of the file,"""
        self.advance = 0
        """or each so many bytes later."""
        self.ranges = True
        self.length: bool | str = True
        """Whether it says how long the file is, or what it says instead."""
        self.whole: str | None = None
        """What it says of the bytes that it sends,"""
        self.gate: threading.Event | None = None
        """and what it waits for in the middle of them."""
        self.kind: str | None = None
        self.asked: list[str | None] = []
        self.paths: list[str] = []
        self.files = {"/file.bin": CONTENT}

    def address(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{path}"

    def remote(self, content: bytes = CONTENT, path: str = "file.bin") -> Remote:
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        return Remote("sets/file.bin", self.address(path), digest)

    def unpublished(self, size: int | None = None) -> Remote:
        """A file of which no hash is known."""
        return Remote("sets/file.bin", self.address("file.bin"), size=size)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        wanted = self.headers.get("Range")
        server.asked.append(wanted)
        server.paths.append(self.path)
        content = server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and server.ranges else 0
        if start >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", server.whole or f"bytes */{len(content)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = content[start:]
        self.send_response(206 if wanted and server.ranges else 200)
        if server.length:
            self.send_header("Content-Length", str(len(body)) if server.length is True else str(server.length))
        if server.whole:
            self.send_header("Content-Range", server.whole)
        if server.kind:
            self.send_header("Content-Type", server.kind)
        self.end_headers()
        sent = body if server.end is None else body[: max(server.end - start, 0)]
        if server.gate:
            self.wfile.write(sent[:HALF])
            self.wfile.flush()
            server.gate.wait(60)
            sent = sent[HALF:]
        self.wfile.write(sent)
        if server.end and server.advance:
            server.end += server.advance
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No data folder, an empty cache, no proxy."""
    monkeypatch.delenv("PARTITA_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "partita"


def test_a_file_is_fetched_and_then_found(server: Server, cache: Path) -> None:
    (path,) = obtain([server.remote()])
    assert path == cache / "sets" / "file.bin"
    assert path.read_bytes() == CONTENT
    assert obtain([server.remote()]) == [path]
    assert server.asked == [None]
    assert [each.name for each in path.parent.iterdir()] == ["file.bin"]


def test_a_cut_download_is_continued(server: Server, cache: Path) -> None:
    for at_hand in (700_000, 1_400_000):
        server.end = at_hand
        with pytest.raises(PartitaError, match=rf"ended after {at_hand} of {len(CONTENT)} bytes; try again"):
            obtain([server.remote()])
        assert (cache / "sets" / "file.bin.part").stat().st_size == at_hand
        assert not (cache / "sets" / "file.bin").exists()
    server.end = None
    (path,) = obtain([server.remote()])
    assert path.read_bytes() == CONTENT
    # A connection that brought something is tried again, until one brings nothing.
    assert server.asked == [None, *["bytes=700000-"] * 2, *["bytes=1400000-"] * 2]


def test_cut_connections_that_bring_something_are_enough(server: Server, cache: Path) -> None:
    server.end = server.advance = 700_000
    assert obtain([server.remote()])[0].read_bytes() == CONTENT
    assert server.asked == [None, "bytes=700000-", "bytes=1400000-"]


def test_a_server_without_ranges_starts_again(server: Server, cache: Path) -> None:
    part = cache / "sets" / "file.bin.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"something older")
    server.ranges = False
    assert obtain([server.remote()])[0].read_bytes() == CONTENT


def test_a_part_that_is_whole_is_only_checked(server: Server, cache: Path) -> None:
    part = cache / "sets" / "file.bin.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT)
    assert obtain([server.remote()])[0].read_bytes() == CONTENT


def test_a_wrong_checksum_removes_the_part(server: Server, cache: Path) -> None:
    wrong = server.remote(b"another content")
    with pytest.raises(PartitaError, match=rf"is damaged or was changed: its MD5 is .* should be {wrong.md5}"):
        obtain([wrong])
    assert list((cache / "sets").iterdir()) == []
    assert obtain([server.remote()])[0].read_bytes() == CONTENT


def test_a_part_of_something_longer_is_not_taken_for_the_file(server: Server, cache: Path) -> None:
    part = cache / "sets" / "file.bin.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT + b"more")
    with pytest.raises(PartitaError, match=rf"the partial download had {len(CONTENT) + 4} bytes, and the file has"):
        obtain([server.unpublished()])
    assert obtain([server.unpublished()])[0].read_bytes() == CONTENT


def test_a_published_sha256_is_checked(server: Server, cache: Path) -> None:
    right = hashlib.sha256(CONTENT).hexdigest()
    with pytest.raises(PartitaError, match=rf"its SHA-256 is {right}, but should be {'0' * 64}\. .*put the right"):
        obtain([Remote("a.bin", server.address("file.bin"), sha256="0" * 64)])
    (path,) = obtain([Remote("a.bin", server.address("file.bin"), sha256=right)])
    assert [each.name for each in cache.iterdir()] == [path.name] == ["a.bin"]


def test_a_known_size_tells_a_cut_file_without_a_length(server: Server, cache: Path) -> None:
    server.length, server.end = False, 700_000
    with pytest.raises(PartitaError, match=rf"ended after 700000 of {len(CONTENT)} bytes; try again"):
        obtain([server.unpublished(size=len(CONTENT))])
    server.end = None
    assert obtain([server.unpublished(size=len(CONTENT))])[0].read_bytes() == CONTENT
    assert server.asked == [None, "bytes=700000-", "bytes=700000-"]


def test_the_first_hash_is_kept_and_enforced(server: Server, cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digest = hashlib.sha256(CONTENT).hexdigest()
    (path,) = obtain([server.unpublished()])
    note = cache / "sets" / "file.bin.sha256"
    assert note.read_text() == f"{digest}  file.bin\n"
    assert f"no checksum of it is published. Its SHA-256 {digest} is kept in {note}" in capsys.readouterr().err

    # Found again it is checked, and said nothing of.
    assert obtain([server.unpublished()]) == [path]
    assert capsys.readouterr().err == ""
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(PartitaError, match=rf"file\.bin was changed since its hash was kept.*says {digest}"):
        obtain([server.unpublished()])

    # Removed and fetched again it must be the same.
    path.unlink()
    server.files["/file.bin"] = b"another edition"
    with pytest.raises(PartitaError, match=rf"but should be {digest} as at the first download.*delete .*\.sha256"):
        obtain([server.unpublished()])
    assert [each.name for each in path.parent.iterdir()] == ["file.bin.sha256"]
    server.files["/file.bin"] = CONTENT
    assert obtain([server.unpublished()]) == [path]

    # Unless the note is removed.
    path.unlink()
    note.unlink()
    server.files["/file.bin"] = b"another edition"
    assert obtain([server.unpublished()])[0].read_bytes() == b"another edition"
    assert note.read_text().startswith(hashlib.sha256(b"another edition").hexdigest())


def test_a_cut_first_download_keeps_no_hash(server: Server, cache: Path) -> None:
    server.end = 700_000
    with pytest.raises(PartitaError, match="try again to continue"):
        obtain([server.unpublished()])
    assert [each.name for each in (cache / "sets").iterdir()] == ["file.bin.part"]
    server.end = None
    obtain([server.unpublished()])
    assert verified(cache / "sets" / "file.bin").read_bytes() == CONTENT


def test_a_hash_is_taken_once(server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as size and time of change stay; a large archive would be read at every load."""
    read: list[Path] = []
    taken = checksums.digest

    def counted(path: Path, kind: str) -> str:
        read.append(path)
        return taken(path, kind)

    monkeypatch.setattr(checksums, "digest", counted)
    (path,) = obtain([server.unpublished()])
    # Just written, it could change again within the same moment.
    for _ in range(2):
        assert verified(path) == path
    assert read == [path] * 2
    os.utime(path, ns=(10**18, 10**18))
    for _ in range(3):
        assert verified(path) == path
    assert read == [path] * 3
    digest = hashlib.sha256(CONTENT).hexdigest()
    note = path.with_name("file.bin.sha256")
    assert note.read_text() == f"{digest}  file.bin\n# checked: {len(CONTENT)} bytes, changed at {10**18}\n"
    os.utime(path, ns=(11 * 10**17, 11 * 10**17))
    assert verified(path) == path
    assert (len(read), note.read_text().count("# checked: ")) == (4, 1)
    path.write_bytes(CONTENT[1:])
    with pytest.raises(PartitaError, match="was changed since its hash was kept"):
        verified(path)


@pytest.mark.parametrize("content", [b"", b"not a hash", b"\xff\xfe\xff"])
def test_a_note_that_holds_no_hash_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.bin").touch()
    (tmp_path / "a.bin.sha256").write_bytes(content)
    with pytest.raises(PartitaError, match=r"a\.bin\.sha256 does not begin with a SHA-256\. Remove it, or"):
        verified(tmp_path / "a.bin")


FETCH = (
    "import sys\n"
    "from pathlib import Path\n"
    "from partita.data.download import Remote, fetch\n"
    "print(fetch(Remote('sets/file.bin', sys.argv[1]), Path(sys.argv[2])).stat().st_size)\n"
)


def fetching(server: Server, cache: Path) -> subprocess.Popen[str]:
    """Another process that fetches the file, of which no hash is known."""
    return subprocess.Popen(
        [sys.executable, "-c", FETCH, server.address("file.bin"), str(cache)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until_half_is_here(cache: Path) -> None:
    part = cache / "sets" / "file.bin.part"
    while not part.exists() or part.stat().st_size < HALF:
        time.sleep(0.01)


def test_two_processes_do_not_write_into_one_file(server: Server, cache: Path) -> None:
    """The second waits for the first, takes what it got, and keeps no other hash."""
    server.gate = threading.Event()
    with fetching(server, cache) as first:
        until_half_is_here(cache)
        with fetching(server, cache) as second:
            assert second.stderr is not None
            assert second.stderr.readline() == "file.bin: another process is fetching or unpacking it; waiting.\n"
            server.gate.set()
            assert [each.communicate()[0] for each in (first, second)] == [f"{len(CONTENT)}\n"] * 2
    assert server.asked == [None]
    assert (cache / "sets" / "file.bin").read_bytes() == CONTENT
    assert (cache / "sets" / "file.bin.sha256").read_text().startswith(hashlib.sha256(CONTENT).hexdigest())
    assert files_below(cache) == {"sets/file.bin", "sets/file.bin.sha256"}


def test_a_process_that_was_killed_leaves_its_part_to_the_next(server: Server, cache: Path) -> None:
    server.gate = threading.Event()
    with fetching(server, cache) as first:
        until_half_is_here(cache)
        first.kill()
    server.gate.set()
    at_hand = (cache / "sets" / "file.bin.part").stat().st_size
    assert obtain([server.unpublished()])[0].read_bytes() == CONTENT
    assert server.asked == [None, f"bytes={at_hand}-"]


def test_what_somebody_else_wrote_is_not_kept(server: Server, cache: Path) -> None:
    """As a program would that knows nothing of locks."""

    def interfere(name: str, at_hand: int, total: int | None) -> None:
        with (cache / "sets" / "file.bin.part").open("ab") as part:
            part.write(b"more")

    with pytest.raises(PartitaError, match=rf"\d+ bytes were received, and {len(CONTENT)} were expected; try again"):
        fetch(server.unpublished(), cache, interfere)
    assert files_below(cache) == set()


def test_a_length_that_is_no_number_is_as_none(server: Server, cache: Path) -> None:
    server.length = "abc"
    assert obtain([server.remote()])[0].read_bytes() == CONTENT
    with pytest.raises(PartitaError, match=r"does not state the length of the file.*Put the file sets/other"):
        obtain([replace(server.unpublished(), name="sets/other.bin")])
    assert obtain([replace(server.unpublished(len(CONTENT)), name="sets/other.bin")])[0].read_bytes() == CONTENT


def test_a_server_that_continues_elsewhere_is_not_believed(server: Server, cache: Path) -> None:
    part = cache / "sets" / "file.bin.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(CONTENT[:100])
    server.whole = f"bytes 0-{len(CONTENT) - 1}/{len(CONTENT)}"
    with pytest.raises(PartitaError, match=r"asked for the bytes from 100 on, and it sends 'bytes 0-"):
        obtain([server.unpublished()])
    assert part.read_bytes() == CONTENT[:100]
    # A part of which nobody knows whether it is whole is begun again.
    part.write_bytes(CONTENT)
    server.whole = "bytes */*"
    with pytest.raises(PartitaError, match=r"the partial download had \d+ bytes, and the file has \*; try again"):
        obtain([server.unpublished()])
    assert files_below(cache) == set()


def test_a_cache_that_cannot_be_written_to_is_named(server: Server, cache: Path) -> None:
    cache.write_bytes(b"a file where the folder should be")
    with pytest.raises(
        PartitaError, match=rf"^Cannot write {cache}/sets/file\.bin: (File exists|Not a directory)\. .*XDG_CACHE_HOME"
    ):
        obtain([server.remote()])


def test_a_full_disk_is_told_from_a_cut_connection(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open

    def full(self: Path, mode: str = "r", **given: Any) -> Any:
        if mode in ("ab", "wb"):
            raise OSError(28, "No space left on device")
        return opened(self, mode, **given)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(PartitaError, match=r"^Cannot write .*file\.bin\.part: No space left on device\. Make room"):
        obtain([server.remote()])
    assert server.asked == [None]


def test_a_missing_file_is_an_error_with_a_way_out(server: Server, cache: Path) -> None:
    with pytest.raises(PartitaError, match=r"HTTP Error 404: Not Found.*Put the file sets/file\.bin into") as caught:
        obtain([server.remote(path="elsewhere.bin")])
    assert str(cache) in str(caught.value)
    assert "PARTITA_DATA" in str(caught.value)


def test_without_a_network_the_message_names_file_and_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    monkeypatch.setenv("PARTITA_DATA", str(tmp_path / "mine"))
    with pytest.raises(PartitaError, match=rf"Cannot fetch http://127\.0\.0\.1:{port}/a\.bin: .*refused") as caught:
        obtain([Remote("a.bin", f"http://127.0.0.1:{port}/a.bin", "0")])
    assert f"Put the file a.bin into {tmp_path / 'mine'}" in str(caught.value)


def test_an_answer_that_is_not_http_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"hello\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(PartitaError, match="Cannot fetch"):
            obtain([Remote("a.bin", f"http://127.0.0.1:{listener.getsockname()[1]}/a.bin", "0")])
        thread.join()


@pytest.mark.parametrize("at_hand", [b"", CONTENT[:9]])
def test_a_web_page_is_not_taken_for_the_file(server: Server, cache: Path, at_hand: bytes) -> None:
    """As drives answer where a quota is used up."""
    part = cache / "sets" / "file.bin.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(at_hand)
    server.kind = "text/html; charset=utf-8"
    with pytest.raises(PartitaError, match=r"answers with a web page.*Put the file sets/file\.bin into"):
        obtain([server.unpublished()])
    assert {each.name: each.read_bytes() for each in part.parent.iterdir()} == {"file.bin.part": at_hand}
    server.kind = "application/octet-stream"
    assert obtain([server.unpublished()])[0].read_bytes() == CONTENT


def test_progress_is_a_line_for_every_tenth(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(download, "CHUNK", 10_000)
    obtain([server.remote()])
    out, err = capsys.readouterr()
    assert out == ""
    assert [line.split("(")[1] for line in err.splitlines()] == [f"{tenth} %)" for tenth in range(0, 101, 10)]
    assert err.splitlines()[-1] == "sets/file.bin: 2.1 of 2.1 MB (100 %)"


def test_progress_without_a_known_length(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.length = False
    obtain([server.remote()])
    assert capsys.readouterr().err == "sets/file.bin: 1.0 MB\n"
    report = progress_lines()
    for size in (5, 9, 10, 15, 20):
        report("a", size * 1_000_000, None)
    assert capsys.readouterr().err.splitlines() == ["a: 5.0 MB", "a: 10.0 MB", "a: 20.0 MB"]


def test_a_report_of_ones_own_is_told_the_bytes(server: Server, cache: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    fetch(server.remote(), cache, lambda *each: told.append(each))
    assert told[-1] == ("sets/file.bin", len(CONTENT), len(CONTENT))


def published(server: Server, monkeypatch: pytest.MonkeyPatch, module: ModuleType, constant: str, file: Path) -> str:
    """Put a file of the real layout where a data set's archive is looked for; its own hash stands for the published."""
    remote: Remote = getattr(module, constant)
    path = "/" + remote.url.rpartition("/")[2]
    content = server.files[path] = file.read_bytes()
    hashed = hashlib.sha256(content).hexdigest() if remote.sha256 else None
    size = len(content) if remote.size else None
    monkeypatch.setattr(module, constant, replace(remote, url=server.address(path[1:]), sha256=hashed, size=size))
    return remote.name


def first_ratings(tmp: Path) -> Path:
    zipped(tmp / "ml.zip", {"ml-latest-small/README.txt": b"", "ml-latest-small/ratings.csv": RATINGS.encode()})
    return tmp / "ml.zip"


def recordings(tmp: Path) -> Path:
    members = {f"RawData/{name}": content.encode() for name, content in hapt_files().items()}
    zipped(tmp / "hapt.zip", {"Train/X_train.txt": b"", **members})
    return tmp / "hapt.zip"


SETS: dict[str, tuple[ModuleType, str, Callable[[Path], Path], Callable[[], object]]] = {
    "movielens": (movielens, "ARCHIVE", first_ratings, lambda: inputs_of(movielens.movielens()).tolist() == [1, 0, 1]),
    "hapt": (hapt, "ARCHIVE", recordings, lambda: inputs_of(hapt.hapt())[:, 0, 0].tolist() == [0, 64, 128, 99]),
    "femnist": (
        femnist,
        "DATABASE",
        lambda tmp: database(tmp / "a.sqlite", femnist_rows()),
        lambda: owners(femnist.femnist()) == ["f1", "f2", "f2", "f2"],
    ),
    "shakespeare": (
        shakespeare,
        "DATABASE",
        lambda tmp: database(tmp / "a.sqlite", SPEECHES),
        lambda: texts_of(shakespeare.shakespeare(), "")[0] == "Nuncle, give me an egg.",
    ),
    "stackoverflow": (
        stackoverflow,
        "DATABASE",
        lambda tmp: database(tmp / "a.sqlite", questions(a=(100, 10))),
        lambda: texts_of(stackoverflow.stackoverflow())[1] == "train a 1",
    ),
}


@pytest.mark.parametrize("name", SETS)
def test_a_named_set_is_fetched_and_read(
    name: str, server: Server, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From an empty folder: without the server, with a cut connection, whole, and again without the server."""
    module, constant, make, right = SETS[name]
    file = published(server, monkeypatch, module, constant, make(tmp_path))
    files = dict(server.files)
    server.files.clear()
    read = getattr(module, name)
    with pytest.raises(PartitaError, match=rf"404.*Put the file {file} into {cache}"):
        read()
    server.files.update(files)
    server.end = 100
    with pytest.raises(PartitaError, match="ended after 100 of"):
        read()
    server.end = None
    assert right()
    asked = len(server.asked)
    server.files.clear()
    assert right()
    assert len(server.asked) == asked
    assert server.asked[-1] == "bytes=100-"
    assert (cache / f"{file}.sha256").exists() == (name in {"hapt", "stackoverflow"})


def test_a_kept_hash_guards_a_named_set(
    server: Server, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = published(server, monkeypatch, hapt, "ARCHIVE", recordings(tmp_path))
    hapt.hapt()
    (cache / file).write_bytes((cache / file).read_bytes() + b"\0")
    with pytest.raises(PartitaError, match="was changed since its hash was kept"):
        hapt.hapt()


def test_mnist_and_its_writers_are_fetched(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    images = {f"{name}.gz": gzip.compress(content) for name, content in MNIST.items()}
    for files, module, constant, ending in (
        (images, mnist, "FILES", ".gz"),
        (writer_files(), mnist_writers, "LABELS", ""),
    ):
        server.files.update({f"/{name}": content for name, content in files.items()})
        sums = {
            name.removesuffix(ending): hashlib.md5(content, usedforsecurity=False).hexdigest()
            for name, content in files.items()
        }
        monkeypatch.setattr(module, "HOME", server.address(""))
        monkeypatch.setattr(module, constant, sums)
    pool = mnist_writers.mnist_writers(official=True, normalization="none")
    assert owners(pool) == ["2154", "0", "2154", "326", "2599"]
    assert np.array_equal(pool.targets, [7, 0, 9, 1, 2])
    assert len(server.asked) == 6


LANDMARKS = {"abcd": 1, "abce": 2, "xyz0": 3, "tst0": 4}
"""Pictures of the lists, the last of the test list, and how red they are."""


def red(level: int) -> bytes:
    return ppm(plain_colour(level, 0, 0, size=8))


def landmark_archive(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("a/b/c/abcd.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return stream.getvalue()


@pytest.fixture
def landmarks(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lists and three archives where they are looked for; a disk with room for them. The archives' paths."""
    members = "landmarks-user-160k"
    zipped(
        tmp_path / "lists.zip",
        {
            f"{members}/federated_train.csv": b"user_id,image_id,class\n7,abcd,2\n7,abce,0\n3,xyz0,1\n",
            f"{members}/test.csv": b"image_id,class\ntst0,1\n",
        },
    )
    server.files["/lists.zip"] = (tmp_path / "lists.zip").read_bytes()
    digest = hashlib.md5(server.files["/lists.zip"], usedforsecurity=False).hexdigest()
    monkeypatch.setattr(_landmarks, "LISTS", Remote(_landmarks.LISTS.name, server.address("lists.zip"), digest))
    monkeypatch.setattr(_landmarks, "HOME", server.address(""))
    monkeypatch.setattr(_landmarks, "ARCHIVES", 3)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2_132_000_000))
    archives = [
        {"./a/b/c/abcd.jpg": red(1), "a/b/c/abcx.jpg": red(9), "../../../escaped.jpg": red(9), "/abs.jpg": red(9)},
        {"../../../../abce.jpg": red(2), "t/s/t/tst0.jpg": red(4)},
        {"x/y/z/xyz0.jpg": red(3), "x/y/z/xyz0.txt": b"", "x/y/z/xyz1.jpg": red(9)},
    ]
    paths = [f"/train/images_{number:03d}.tar" for number in range(3)]
    for number, (path, content) in enumerate(zip(paths, map(landmark_archive, archives), strict=True)):
        server.files[path] = content
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        server.files[f"/md5sum/train/md5.images_{number:03d}.txt"] = f"{digest}  images_{number:03d}.tar\n".encode()
    return paths


def files_below(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}


def kept(*images: str) -> set[str]:
    return {f"gldv2/train/{each[0]}/{each[1]}/{each[2]}/{each}.jpg" for each in images}


LEFT = {"gldv2/landmarks-user-160k.zip", "gldv2/archives_done.txt"}


def test_landmarks_are_fetched_and_only_listed_ones_kept(
    server: Server, cache: Path, landmarks: list[str], pillow: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files_below(cache.parent)
    pool = gldv2(size=8, smallest=1, fetch=True)
    assert (pool.targets.tolist(), owners(pool)) == ([2, 0, 1], ["7", "7", "3"])
    assert inputs_of(pool)[:, 0, 0, 0].tolist() == [1, 2, 3]
    assert files_below(cache) == {*LEFT, "gldv2/federated_train.csv", *kept(*LANDMARKS)}
    assert files_below(cache.parent) - before == {f"partita/{each}" for each in files_below(cache)}
    for image, level in LANDMARKS.items():
        assert (cache / kept(image).pop()).read_bytes() == red(level)
    told = capsys.readouterr().err.splitlines()
    assert told[0].startswith("gldv2: 3 of its 3 archives are to be downloaded, about 3 GB, of which about 0 GB of")
    assert told[-1].startswith("gldv2/images_002.tar, archive 3 of 3: ")
    # What is here needs neither the network nor leave.
    server.files.clear()
    assert owners(gldv2(size=8, smallest=1)) == ["7", "7", "3"]


def test_landmarks_are_not_fetched_unasked(server: Server, cache: Path, landmarks: list[str]) -> None:
    with pytest.raises(PartitaError, match=r"it is large: 3 of its 3 archives .* about 3 GB") as caught:
        gldv2()
    assert "partita data show gldv2 fetch=true" in str(caught.value)
    assert f"federated_train.csv and the pictures in train/a/b/c, into {cache}" in str(caught.value)
    assert server.asked == []
    assert not cache.exists()


def test_the_whole_size_is_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PartitaError, match=r"500 of its 500 archives .* about 500 GB, of which about 22 GB of"):
        gldv2()
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=23_999_999_999))
    with pytest.raises(
        PartitaError, match=r"needs about 24 GB in .*gldv2, and that disk has 24 GB free.*XDG_CACHE_HOME"
    ):
        gldv2(fetch=True)


def test_a_damaged_archive_of_landmarks_leaves_nothing(server: Server, cache: Path, landmarks: list[str]) -> None:
    server.files[landmarks[1]] += b"\0"
    with pytest.raises(PartitaError, match=r"images_001\.tar is damaged or was changed: its MD5"):
        gldv2(fetch=True)
    assert files_below(cache) == LEFT | kept("abcd")


def test_a_checksum_of_landmarks_must_be_one(server: Server, cache: Path, landmarks: list[str]) -> None:
    server.files["/md5sum/train/md5.images_000.txt"] = b"<html>0123</html>"
    with pytest.raises(PartitaError, match=r"md5\.images_000\.txt does not begin with an MD5"):
        gldv2(fetch=True)
    assert landmarks[0] not in server.paths


def test_landmarks_go_on_where_they_were(server: Server, cache: Path, landmarks: list[str], pillow: str) -> None:
    """The second archive is out of reach, then cut; the first is fetched once, the second goes on within."""
    second = server.files.pop(landmarks[1])
    with pytest.raises(PartitaError, match=rf"404.*Put the file gldv2/images_001\.tar into {cache}"):
        gldv2(fetch=True)
    server.files[landmarks[1]] = second
    server.end = 1000
    with pytest.raises(PartitaError, match=r"images_001.*ended after 1000 of"):
        gldv2(fetch=True)
    with pytest.raises(PartitaError, match="2 of its 3 archives are to be downloaded, about 2 GB"):
        gldv2()
    server.end = None
    assert len(gldv2(size=8, smallest=1, fetch=True).targets) == 3
    assert [server.paths.count(path) for path in landmarks] == [1, 4, 1]
    assert server.asked[server.paths.index(landmarks[2]) - 2] == "bytes=1000-"


def test_an_interrupted_unpacking_is_done_again_without_a_download(
    server: Server, cache: Path, landmarks: list[str], pillow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", interrupted)
        with pytest.raises(KeyboardInterrupt):
            gldv2(fetch=True)
    assert files_below(cache) == {"gldv2/landmarks-user-160k.zip", "gldv2/images_000.tar"}
    gldv2(size=8, smallest=1, fetch=True)
    assert [server.paths.count(path) for path in landmarks] == [1, 1, 1]
    assert "gldv2/images_000.tar" not in files_below(cache)


def test_a_full_disk_names_the_picture(landmarks: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(PartitaError, match=r"Cannot write .*abcd\.jpg: .*No space left.*Try again to continue"):
        gldv2(fetch=True)


def test_archives_put_in_place_are_used_and_stay(
    server: Server, cache: Path, landmarks: list[str], pillow: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "mine"
    monkeypatch.setenv("PARTITA_DATA", str(mine))
    (mine / "gldv2").mkdir(parents=True)
    for path in landmarks:
        (mine / "gldv2" / Path(path).name).write_bytes(server.files.pop(path))
    (mine / "gldv2" / "landmarks-user-160k.zip").write_bytes(server.files["/lists.zip"])
    assert len(gldv2(size=8, smallest=1, fetch=True).targets) == 3
    assert server.asked == []
    assert len(list((mine / "gldv2").glob("*.tar"))) == 3


def folder_page(**files: str) -> bytes:
    """As Drive shows a shared folder: files by number, and another folder."""
    entries = "".join(
        f'<div class="flip-entry" id="entry-{number}"><div class="flip-entry-info"><a href="https://drive.google.com/'
        f'file/d/{number}/view?usp=drive_web" target="_blank"><div class="flip-entry-visual"><img src="a.png"/></div>'
        f'<div class="flip-entry-title">{name}</div></a></div></div>'
        for number, name in files.items()
    )
    folder = '<a href="https://drive.google.com/drive/folders/F"><div class="flip-entry-title">REAL-CUR</div></a>'
    return f"<html><head><title>FLICKR &amp; more</title></head><body>{folder}{entries}</body></html>".encode()


@pytest.fixture
def drive(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setattr(_drive, "FOLDER", server.address("folder?id="))
    monkeypatch.setattr(_drive, "FILE", server.address("download?id="))
    noise = np.random.default_rng(0).bytes(5000)
    zipped(tmp_path / "a.zip", {"40K/": b"", "40K/a.jpg": red(10), "40K/b.jpg": red(20), "40K/c.jpg": noise})
    page = folder_page(Z_1="REAL-CUR.zip", **{"P-2": ARCHIVE, "T_3": f" {TABLE}"})
    server.files = {
        "/folder?id=1LR6trJhN4XbgTtqZo1zfe272cAkXqA7e": page,
        "/download?id=P-2": (tmp_path / "a.zip").read_bytes(),
        "/download?id=T_3": FLICKR.encode(),
    }
    return server


def test_flickr_aes_is_fetched_from_its_drive(drive: Server, cache: Path, pillow: str) -> None:
    drive.end = 3000
    with pytest.raises(PartitaError, match="ended after 3000 of"):
        flickr_aes(size=8, smallest=1, largest=2)
    drive.end = None
    pool = flickr_aes(size=8, smallest=1, largest=2)
    assert drive.asked == [None, None, "bytes=3000-", None, "bytes=3000-", None]
    assert (owners(pool), inputs_of(pool)[:, 0, 3, 3].tolist()) == (["A1", "A1", "A2"], [10, 20, 10])
    assert files_below(cache) == {f"flickr_aes/{each}{end}" for each in (ARCHIVE, TABLE) for end in ("", ".sha256")}
    drive.files.clear()
    assert owners(flickr_aes(size=8, smallest=1, largest=2)) == ["A1", "A1", "A2"]


def test_flickr_aes_goes_on_where_it_was(drive: Server, cache: Path, pillow: str) -> None:
    """Its table comes last, so that what is not whole is not taken for the data set."""
    table = drive.files.pop("/download?id=T_3")
    with pytest.raises(PartitaError, match=rf"404.*Put the file flickr_aes/{TABLE} into {cache}"):
        flickr_aes()
    drive.files["/download?id=T_3"] = table
    assert len(flickr_aes(size=8, smallest=1, largest=2).targets) == 3
    assert drive.paths.count("/download?id=P-2") == 1


def test_a_drive_that_answers_otherwise_is_an_error_with_a_way_out(drive: Server, cache: Path) -> None:
    files = rf"Put the files flickr_aes/{ARCHIVE} and flickr_aes/{TABLE} into {cache} yourself"
    (folder,) = (path for path in drive.files if path.startswith("/folder"))
    page = drive.files[folder]
    drive.files[folder] = folder_page(P=ARCHIVE)
    with pytest.raises(PartitaError, match=rf"does not list {TABLE}\. {files}"):
        flickr_aes()
    del drive.files[folder]
    with pytest.raises(PartitaError, match=rf"Cannot fetch .*404.*{files}"):
        flickr_aes()
    drive.files[folder] = page
    drive.kind = "text/html"
    with pytest.raises(PartitaError, match="answers with a web page"):
        flickr_aes()
    assert files_below(cache) == set()


def test_data_folders_are_searched_in_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, names in ((first, ["b"]), (second, ["a", "b"]), (cache, ["a", "b", "c"])):
        folder.mkdir()
        for name in names:
            (folder / name).touch()
    monkeypatch.setenv("PARTITA_DATA", f"{first}{os.pathsep}{second}")
    assert data_folders() == [first, second, cache]
    assert find("a") == second / "a"
    assert find("a", "b") == first / "b"
    assert find("c") == cache / "c"
    assert find("d") is None


def test_a_home_folder_can_be_abbreviated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PARTITA_DATA", "~/sets")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_folders() == [tmp_path / "sets", tmp_path / ".cache" / "partita"]
