"""The server's process and the app that brings orders to sites: one that dies is replaced."""

import json
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from threading import Thread

import pytest

from partita.deploy.carrier import Carrier
from partita.deploy.wire import connected, listening, receive, send
from partita.errors import PartitaError


def app(path: Path, answered: int | None = None) -> None:
    """Answers each order with itself, backwards; dies after so many."""
    with suppress(EOFError, OSError), closing(connected(path)) as connection:
        while True:
            header = json.loads(receive(connection))
            orders = {site: receive(connection) for site in header["sites"]}
            for count, (site, order) in enumerate(orders.items()):
                if count == answered:
                    return
                problem = "nobody is there" if order == b"problem" else None
                send(connection, json.dumps({"site": site, "problem": problem}).encode())
                send(connection, order[::-1])
            send(connection, b"{}")


def starting(path: Path, *lives: int | None) -> Callable[[], None]:
    """Starts one app after another, each of which answers so many orders."""
    left = iter(lives)
    return lambda: Thread(target=app, args=(path, next(left)), daemon=True).start()


def test_orders_that_are_not_answered_go_to_the_next_app(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with listening(path) as listener, closing(Carrier("abc", listener, starting(path, 2, 0, None))) as carrier:
        assert dict(carrier({0: b"one", 1: b"two", 2: b"three"}, 30)) == {0: b"eno", 1: b"owt", 2: b"eerht"}
        assert dict(carrier({2: b"four"}, 30)) == {2: b"ruof"}


def test_why_there_is_no_reply(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with listening(path) as listener, closing(Carrier("ab", listener, starting(path, None))) as carrier:
        found = dict(carrier({0: b"problem", 1: b"two"}, 30))
    assert str(found[0]) == "nobody is there"
    assert found[1] == b"owt"


def test_what_was_given_up_is_not_taken_for_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with listening(path) as listener, closing(Carrier("ab", listener, starting(path, None, None))) as carrier:
        replies = carrier({0: b"one", 1: b"two"}, 30)
        next(replies)
        replies.close()
        assert list(carrier({1: b"three"}, 30)) == [(1, b"eerht")]


def test_a_superlink_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    def refused() -> None:
        raise PartitaError("not there")

    with listening(tmp_path / "socket") as listener, pytest.raises(PartitaError, match="not there"):
        list(Carrier("a", listener, refused)({0: b"one"}, 30))


def test_keys_are_those_of_now(tmp_path: Path) -> None:
    """A site that is revoked, or has another key, is so from the next order on."""
    path, keys, asked = tmp_path / "socket", {"a": "first"}, list[object]()

    def noting() -> None:
        with suppress(EOFError, OSError), closing(connected(path)) as connection:
            while True:
                asked.append(json.loads(receive(connection))["keys"])
                receive(connection)
                send(connection, b'{"site": "a", "problem": null}')
                send(connection, b"reply")
                send(connection, b"{}")

    def start() -> None:
        Thread(target=noting, daemon=True).start()

    with listening(path) as listener, closing(Carrier("a", listener, start, keys=lambda: keys)) as carrier:
        for now in ("first", "second"):
            keys["a"] = now
            assert dict(carrier({0: b"order"}, 30)) == {0: b"reply"}
        del keys["a"]
        assert dict(carrier({0: b"order"}, 30)) == {0: b"reply"}
    assert asked == [{"a": "first"}, {"a": "second"}, {}]
