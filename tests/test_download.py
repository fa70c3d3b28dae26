"""Downloads from a server on this machine: whole, resumed, damaged, missing and unreachable."""

import gzip
import hashlib
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from partita import download
from partita.data import femnist, hapt, mnist, mnist_writers, movielens, shakespeare, stackoverflow
from partita.download import Remote, data_folders, fetch, find, obtain, progress_lines, verified
from partita.errors import PartitaError
from test_sources import (
    MNIST,
    RATINGS,
    SPEECHES,
    database,
    femnist_rows,
    hapt_files,
    inputs_of,
    owners,
    questions,
    texts_of,
    writer_files,
    zipped,
)

CONTENT = bytes(range(256)) * 8192


class Server(ThreadingHTTPServer):
    """Serves one file, by ranges unless told otherwise; can cut the connection."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.cut_after: int | None = None
        self.ranges = True
        self.length = True
        self.asked: list[str | None] = []
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
        content = server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and server.ranges else 0
        if start >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = content[start:]
        self.send_response(206 if wanted and server.ranges else 200)
        if server.length:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body if server.cut_after is None else body[: server.cut_after])
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
    server.cut_after = 700_000
    for at_hand in (700_000, 1_400_000):
        with pytest.raises(PartitaError, match=rf"ended after {at_hand} of {len(CONTENT)} bytes; try again"):
            obtain([server.remote()])
        assert (cache / "sets" / "file.bin.part").stat().st_size == at_hand
        assert not (cache / "sets" / "file.bin").exists()
    server.cut_after = None
    (path,) = obtain([server.remote()])
    assert path.read_bytes() == CONTENT
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
    with pytest.raises(PartitaError, match=rf"the part at hand had {len(CONTENT) + 4} bytes, the file has"):
        obtain([server.unpublished()])
    assert obtain([server.unpublished()])[0].read_bytes() == CONTENT


def test_a_published_sha256_is_checked(server: Server, cache: Path) -> None:
    right = hashlib.sha256(CONTENT).hexdigest()
    with pytest.raises(PartitaError, match=rf"its SHA-256 is {right}, it should be {'0' * 64}\. .*put the right"):
        obtain([Remote("a.bin", server.address("file.bin"), sha256="0" * 64)])
    (path,) = obtain([Remote("a.bin", server.address("file.bin"), sha256=right)])
    assert [each.name for each in cache.iterdir()] == [path.name] == ["a.bin"]


def test_a_known_size_tells_a_cut_file_without_a_length(server: Server, cache: Path) -> None:
    server.length, server.cut_after = False, 700_000
    with pytest.raises(PartitaError, match=rf"ended after 700000 of {len(CONTENT)} bytes; try again"):
        obtain([server.unpublished(size=len(CONTENT))])
    server.cut_after = None
    assert obtain([server.unpublished(size=len(CONTENT))])[0].read_bytes() == CONTENT
    assert server.asked == [None, "bytes=700000-"]


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
    with pytest.raises(PartitaError, match=rf"it should be {digest} as at the first download.*delete .*\.sha256"):
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
    server.cut_after = 700_000
    with pytest.raises(PartitaError, match="try again to continue"):
        obtain([server.unpublished()])
    assert [each.name for each in (cache / "sets").iterdir()] == ["file.bin.part"]
    server.cut_after = None
    obtain([server.unpublished()])
    assert verified(cache / "sets" / "file.bin").read_bytes() == CONTENT


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
    server.cut_after = 100
    with pytest.raises(PartitaError, match="ended after 100 of"):
        read()
    server.cut_after = None
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
