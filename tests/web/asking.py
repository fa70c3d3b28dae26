"""Requests to an application in this process, without a port."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from partita.web.limits import Application, Message


class Asking:
    """A client with a loop of its own. What goes wrong inside the application is raised here."""

    def __init__(self, application: Application, loop: asyncio.AbstractEventLoop) -> None:
        transport = httpx.ASGITransport(app=application)
        self._client = httpx.AsyncClient(transport=transport, base_url="http://localhost")
        self._loop = loop

    def ask(self, method: str, path: str, **given: Any) -> httpx.Response:
        return self._loop.run_until_complete(self._client.request(method, path, **given))

    def get(self, path: str, **given: Any) -> httpx.Response:
        return self.ask("GET", path, **given)

    def post(self, path: str, **given: Any) -> httpx.Response:
        return self.ask("POST", path, **given)


@contextmanager
def asking(application: Application) -> Iterator[Asking]:
    """The application, started before and stopped after."""
    loop = asyncio.new_event_loop()
    incoming: asyncio.Queue[Message] = asyncio.Queue()
    outgoing: asyncio.Queue[Message] = asyncio.Queue()

    async def step(kind: str) -> None:
        await incoming.put({"type": f"lifespan.{kind}"})
        assert (await outgoing.get())["type"] == f"lifespan.{kind}.complete"

    task = loop.create_task(_call(application, {"type": "lifespan"}, incoming, outgoing))
    try:
        loop.run_until_complete(step("startup"))
        try:
            yield Asking(application, loop)
        finally:
            loop.run_until_complete(step("shutdown"))
            loop.run_until_complete(task)
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _call(
    application: Application, scope: dict[str, Any], incoming: "asyncio.Queue[Message]", out: "asyncio.Queue[Message]"
) -> None:
    await application(scope, incoming.get, out.put)
