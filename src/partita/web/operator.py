"""What does the operator of a federation see? A local page, which asks for the status again and again."""

import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI
from fastapi.responses import Response

from ..deploy.status import status_of
from ..errors import PartitaError
from .files import add_page
from .limits import Application, Gate, Limits
from .server import run as answer

FOLDER = "operator_page"
FILES = {"page.css": "text/css", "page.js": "text/javascript", "chart.js": "text/javascript"}
LIMITS = Limits(rate=50.0, seconds=5.0)


def serve_status(run: Path, bound: socket.socket, on_start: Callable[[], None] = lambda: None) -> None:
    """Show the federation whose run is in a folder, until SIGINT or SIGTERM."""
    answer(application(run, on_start), bound, LIMITS.seconds)


def application(run: Path, on_start: Callable[[], None] = lambda: None) -> Application:
    """The page and what it asks. Nothing can be changed through it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        on_start()
        yield

    app = FastAPI(title="Partita", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    add_page(app, FOLDER, FILES)

    @app.get("/status")
    def status() -> Response:
        """In a thread: the run is read from its database."""
        try:
            return _as_json(status_of(run).as_dict())
        except PartitaError as problem:
            return _as_json({"detail": str(problem)}, 503)

    return Gate(app, LIMITS, None, local=True)


def _as_json(found: object, code: int = 200) -> Response:
    """In plain ASCII: a name may hold what UTF-8 cannot."""
    headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return Response(json.dumps(found).encode(), code, headers, "application/json")
