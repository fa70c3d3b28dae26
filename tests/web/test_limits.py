"""Requests that are too large, too many, too slow or from elsewhere do not reach the application."""

import asyncio
from typing import Any

import pytest

from partita.web.limits import Gate, Limits, Message, Rate, Receive, Scope, Send


def test_an_address_may_ask_so_often_and_others_are_not_held_back() -> None:
    now = 0.0
    rate = Rate(2, lambda: now)
    assert [rate.allows("a") for _ in range(3)] == [True, True, False]
    assert rate.allows("b")
    now = 0.5
    assert [rate.allows("a") for _ in range(2)] == [True, False]
    now = 100.0
    assert [rate.allows("a") for _ in range(3)] == [True, True, False]


def test_less_than_one_a_second_and_no_limit() -> None:
    now = 0.0
    seldom = Rate(0.1, lambda: now)
    assert [seldom.allows("a") for _ in range(2)] == [True, False]
    now = 10.0
    assert seldom.allows("a")
    assert all(Rate(0).allows("a") for _ in range(10_000))


def test_no_more_addresses_are_remembered_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partita.web.limits.REMEMBERED", 3)
    rate = Rate(1, lambda: 0.0)
    assert all(rate.allows(str(address)) for address in range(100))
    assert len(rate._left) == 3


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message["body"]})


def sent(
    limits: Limits, parts: list[bytes | None], *, local: bool = True, token: str | None = None, **changes: Any
) -> tuple[int, bytes]:
    """The status and the body of the answer to a request whose body comes in parts; None is a part that never comes."""
    headers = [(name.encode(), value.encode()) for name, value in changes.pop("headers", {}).items()]
    scope = {"type": "http", "method": "POST", "path": "/predict", "headers": headers, "client": ("a", 1), **changes}
    left = list(parts)
    told: list[Message] = []

    async def receive() -> Message:
        part = left.pop(0)
        if part is None:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": part, "more_body": bool(left)}

    async def send(message: Message) -> None:
        told.append(message)

    asyncio.run(Gate(echo, limits, token, local=local)(scope, receive, send))
    return told[0]["status"], told[1]["body"]


def test_a_body_in_parts_arrives_whole() -> None:
    assert sent(Limits(), [b"ab", b"", b"c"]) == (200, b"abc")


def test_a_body_that_is_too_large_is_refused_before_it_is_read() -> None:
    limits = Limits(body=4)
    assert sent(limits, [b"abcd"])[0] == 200
    assert sent(limits, [b"ab", b"cde", None])[0] == 413
    assert sent(limits, [None], headers={"content-length": "5"})[0] == 413
    assert sent(limits, [None], headers={"content-length": "many"})[0] == 413
    assert sent(limits, [None], headers={"content-length": "9" * 5000})[0] == 413


def test_a_body_that_does_not_come_is_given_up() -> None:
    assert sent(Limits(seconds=0.01), [b"ab", None])[0] == 408


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:8000", 200), ("127.0.0.1", 200), ("[::1]:8000", 200), ("LOCALHOST", 200), ("evil.example:8000", 421)],
)
def test_a_server_of_this_machine_answers_to_its_names_alone(host: str, status: int) -> None:
    assert sent(Limits(), [b""], headers={"host": host})[0] == status
    assert sent(Limits(), [b""], headers={"host": host}, local=False)[0] == 200


@pytest.mark.parametrize("told", ["", "Bearer ", "Bearer wrong", "secret", "Bearer secret ", "Bearer sécret"])
def test_a_wrong_token_is_refused(told: str) -> None:
    assert sent(Limits(), [b""], token="secret", headers={"authorization": told})[0] == 401
    assert sent(Limits(), [b""], token="secret", headers={"authorization": "Bearer secret"})[0] == 200


def test_too_many_requests() -> None:
    gate = Gate(echo, Limits(rate=1), None, local=True)
    statuses: list[int] = []

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def twice() -> None:
        for address in ("a", "a", "b"):
            scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "client": (address, 1)}
            await gate(scope, receive, send)

    asyncio.run(twice())
    assert statuses == [200, 429, 200]
