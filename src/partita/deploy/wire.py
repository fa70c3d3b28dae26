"""How does a message get to the resident site on the same machine? Over a Unix socket of its user, or of a group.

The caller needs no torch: the process that brings a message may live for that message alone.
"""

import os
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from ..errors import PartitaError

LENGTH = 8
MOST = 1 << 34
"""Bytes of a message at most."""
PATIENCE = 30.0
"""Seconds that one who asks may be silent before its message is complete."""


def ask(path: Path, message: bytes) -> bytes:
    """The answer of the site that listens at a path."""
    try:
        with closing(connected(path)) as connection:
            send(connection, message)
            return receive(connection)
    except (OSError, EOFError) as problem:
        raise PartitaError(f"No site answers at {path} ({problem}). Start it with: partita node run FILE") from problem


def connected(path: Path) -> socket.socket:
    """A connection with the process that listens at a path."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(str(path))
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def listening(path: Path, group: str | None = None) -> Iterator[socket.socket]:
    """A socket for `serve`; a path on which another site listens is refused. A `group` of users may open it too."""
    with suppress(OSError), closing(socket.socket(socket.AF_UNIX)) as other:
        other.connect(str(path))
        raise PartitaError(f"Another process listens at {path}. End it first.")
    # The socket has another name until it listens, so that every process that sees the path can connect.
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        before = os.umask(0o177)
        try:
            listener.bind(str(new))
        except OSError as problem:
            raise PartitaError(
                f"Cannot listen at {path} ({problem}). Such a path has about 100 letters at most."
            ) from problem
        finally:
            os.umask(before)
        if group is not None:
            _open_to(group, new)
        listener.listen(8)
        new.replace(path)
        try:
            yield listener
        finally:
            path.unlink(missing_ok=True)


def _open_to(group: str, path: Path) -> None:
    try:
        shutil.chown(path, group=group)
        path.chmod(0o660)
    except (LookupError, OSError) as problem:
        path.unlink(missing_ok=True)
        raise PartitaError(
            f"Cannot open {path} to the group {group!r} ({problem}). It must exist, and the site's user be in it."
        ) from problem


def serve(listener: socket.socket, answer: Callable[[bytes], bytes]) -> None:
    """Answer one message after another, until the process is interrupted. A lost connection does not stop it."""
    while True:
        connection, _ = listener.accept()
        with closing(connection), suppress(OSError, EOFError):
            connection.settimeout(PATIENCE)
            message = receive(connection)
            connection.settimeout(None)
            send(connection, answer(message))


def send(connection: socket.socket, message: bytes) -> None:
    """A message with its length before it."""
    connection.sendall(len(message).to_bytes(LENGTH, "little"))
    connection.sendall(message)


def receive(connection: socket.socket) -> bytes:
    length = int.from_bytes(_exactly(connection, LENGTH), "little")
    if length > MOST:
        raise EOFError(f"a message of {length} bytes")
    return _exactly(connection, length)


def _exactly(connection: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        part = connection.recv(min(count - len(found), 1 << 20))
        if not part:
            raise EOFError("the connection was closed")
        found += part
    return bytes(found)
