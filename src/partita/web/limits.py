"""What may be asked of the server? Requests of a bounded size, rate and time, with the token where one is set."""

import asyncio
import hmac
import json
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = ("/", "/health", "/openapi.json")
"""What needs no token, beside the files of the page."""
PAGE = "/page/"
LOCAL = ("localhost", "127.0.0.1", "[::1]", "")
MOST_DIGITS = 20
"""The most digits of the length of a body."""
REMEMBERED = 10_000
"""Addresses whose rate is remembered."""


@dataclass(frozen=True)
class Limits:
    """The limits of one request and of the queue."""

    body: int = 8 << 20
    """Bytes."""
    rows: int = 256
    """Inputs of one request."""
    rate: float = 1000.0
    """Requests per second of one address; 0 is no limit."""
    seconds: float = 10.0
    """The seconds until a request is answered or given up."""
    waiting: int = 1024
    """Questions that wait for an answer."""
    batch: int = 64
    """Inputs that go through the network together."""


class Rate:
    """How often each address may ask: `per_second` times a second, and as many at once after a pause."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._clock = per_second, clock
        self._left: dict[str, tuple[float, float]] = {}

    def allows(self, address: str) -> bool:
        if not self._rate:
            return True
        now, most = self._clock(), max(self._rate, 1.0)
        left, at = self._left.pop(address, (most, now))
        left = min(most, left + (now - at) * self._rate)
        self._left[address] = (left - 1 if left >= 1 else left, now)
        while len(self._left) > REMEMBERED:
            # The one that has asked nothing for longest.
            del self._left[next(iter(self._left))]
        return left >= 1


class Gate:
    """Stands before the application: rate, token, size, and the time that a body takes to come."""

    def __init__(
        self,
        application: Application,
        limits: Limits,
        token: str | None,
        *,
        local: bool,
    ) -> None:
        self._application, self._limits, self._token, self._local = application, limits, token, local
        self._rate = Rate(limits.rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        refused = self._refused(scope)
        if refused is None and scope["method"] in ("POST", "PUT", "PATCH", "DELETE"):
            body = await self._body(scope, receive)
            if isinstance(body, bytes):
                receive = _replay(body, receive)
            else:
                refused = body
        if refused is None:
            await self._application(scope, receive, send)
            return
        status, reason, headers = refused
        await answer(send, status, reason, headers)

    def _refused(self, scope: Scope) -> "Refusal | None":
        client = scope.get("client")
        if not self._rate.allows(client[0] if client else ""):
            return 429, f"More than {self._limits.rate:g} requests per second. Ask again later.", {"retry-after": "1"}
        if self._local and _host(scope) not in LOCAL:
            # Otherwise another site's page could ask under a name of its own that leads here.
            return 421, "This server answers to localhost alone.", {}
        path = scope["path"]
        if self._token is None or path in OPEN or path.startswith(PAGE) or allowed(scope, self._token):
            return None
        return (
            401,
            "This needs the server's token: send the header Authorization: Bearer TOKEN.",
            {"www-authenticate": "Bearer"},
        )

    async def _body(self, scope: Scope, receive: Receive) -> "bytes | Refusal":
        most = self._limits.body
        too_large: Refusal = (413, f"The body is larger than {most:,} bytes.", {"connection": "close"})
        told = dict(scope["headers"]).get(b"content-length", b"0")
        if not told.isdigit() or len(told) > MOST_DIGITS or int(told) > most:
            return too_large
        parts: list[bytes] = []
        size = 0

        async def read() -> bool:
            nonlocal size
            more = True
            while more:
                message = await receive()
                part = message.get("body", b"")
                size += len(part)
                if size > most:
                    return False
                parts.append(part)
                more = message["type"] == "http.request" and message.get("more_body", False)
            return True

        try:
            if not await asyncio.wait_for(read(), self._limits.seconds):
                return too_large
        except asyncio.TimeoutError:
            return 408, f"The body did not arrive within {self._limits.seconds:g} seconds.", {"connection": "close"}
        return b"".join(parts)


Refusal = tuple[int, str, dict[str, str]]


def _host(scope: Scope) -> str:
    told: bytes = dict(scope["headers"]).get(b"host", b"")
    host = told.decode("latin-1").lower()
    return host.partition("]")[0] + "]" if host.startswith("[") else host.partition(":")[0]


def allowed(scope: Scope, token: str) -> bool:
    """Whether a request carries the token; the comparison takes as long whatever is wrong."""
    told = dict(scope["headers"]).get(b"authorization", b"")
    return hmac.compare_digest(told, b"Bearer " + token.encode())


async def answer(send: Send, status: int, reason: str, headers: dict[str, str]) -> None:
    """A refusal with its reason, as the application gives it."""
    body = json.dumps({"detail": reason}).encode()
    named = {"content-type": "application/json", "content-length": str(len(body)), **headers}
    coded = [(name.encode(), value.encode()) for name, value in named.items()]
    await send({"type": "http.response.start", "status": status, "headers": coded})
    await send({"type": "http.response.body", "body": body})


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body that was read, and then whatever comes."""
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
