"""How is the server started and stopped? On a port that is free, until Ctrl-C; what was asked is answered first."""

import ipaddress
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import uvicorn

from ..errors import PartitaError
from .app import application
from .catalogue import Catalogue
from .limits import Application, Limits


def read_token(path: Path) -> str:
    """The token in a file: one word, long enough not to be guessed."""
    try:
        words = path.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as problem:
        raise PartitaError(f"Cannot read the token from {path}: {getattr(problem, 'strerror', problem)}.") from problem
    if len(words) != 1 or len(words[0]) < 16 or not words[0].isascii():
        raise PartitaError(
            f"{path} must hold one word of at least 16 letters and digits. Make one with: "
            f"python -c 'import secrets; print(secrets.token_urlsafe())' > {path}"
        )
    return words[0]


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 is any that is free."""
    try:
        [(family, kind, protocol, _, place), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        made = socket.socket(family, kind, protocol)
    except OSError as problem:
        raise PartitaError(f"Cannot listen on {host}: {problem.strerror}.") from problem
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(place)
        made.listen(1024)
    except OSError as problem:
        made.close()
        raise PartitaError(
            f"Cannot listen on {host} port {port}: {problem.strerror}. Choose another with --port, or --port 0 for any "
            "that is free."
        ) from problem
    return made


def address(bound: socket.socket) -> str:
    """The address of the page."""
    host, port = bound.getsockname()[:2]
    shown = "localhost" if ipaddress.ip_address(host).is_unspecified else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/"


def is_loopback(bound: socket.socket) -> bool:
    return ipaddress.ip_address(bound.getsockname()[0]).is_loopback


def serve(
    catalogue: Catalogue,
    bound: socket.socket,
    limits: Limits,
    token: str | None,
    on_start: Callable[[], None] = lambda: None,
) -> None:
    """Answer until SIGINT or SIGTERM; then take nothing new, and answer what was asked."""
    # The thread that answers gives way to the one that reads requests, and must not wait long to go on.
    sys.setswitchinterval(0.0005)
    run(application(catalogue, limits, token, local=is_loopback(bound), on_start=on_start), bound, limits.seconds)


def run(application: Application, bound: socket.socket, seconds: float) -> None:
    """Answer until SIGINT or SIGTERM; open requests have `seconds` to end."""
    config = uvicorn.Config(
        application,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=max(1, int(seconds) + 1),
    )
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        # Once everything is answered, uvicorn raises the signal again that it was stopped by.
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run([bound])
    finally:
        signal.signal(signal.SIGTERM, before)
        bound.close()
