"""Downloads from a server on this machine: whole, resumed, damaged, missing and unreachable."""

import hashlib
import os
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from partita import download
from partita.download import Remote, data_folders, fetch, find, obtain, progress_lines
from partita.errors import PartitaError

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

    def remote(self, content: bytes = CONTENT, path: str = "file.bin") -> Remote:
        digest = hashlib.md5(content, usedforsecurity=False).hexdigest()
        return Remote("sets/file.bin", f"http://127.0.0.1:{self.server_address[1]}/{path}", digest)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        wanted = self.headers.get("Range")
        server.asked.append(wanted)
        if self.path != "/file.bin":
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and server.ranges else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        body = CONTENT[start:]
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
