"""How does Flower start a process for each message without being loaded each time? As a fork of one that has loaded it.

Flower starts its own commands by their names, from the path. A folder that comes first on the path holds commands of
the same names, which hand their arguments over to the process that waits here, and end. The forks are in its group.
"""

import os
import shlex
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import NoReturn

from .wire import listening, receive

STARTS_APPS = "flower-superexec"
"""Stays as long as the command that started it."""
STARTED_BY = {
    "flower-supernode": (STARTS_APPS, "flwr-clientapp"),
    "flower-superlink": (STARTS_APPS, "flwr-serverapp"),
}
"""Which commands are started by one that stays."""
APPS = "partita.deploy.flower"
POLLING = "flwr.supernode.start_client_internal"
"""Where a SuperNode looks for messages: every three seconds, which no setting changes."""
SOON = 0.2
"""Seconds after which a SuperNode looks again; then after twice as long, and so on."""
LOOK = 0.5
"""Seconds between two looks whether a fork has ended."""
HAND_OVER = """
import socket, sys
message = "\\0".join(sys.argv[2:]).encode()
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
connection.sendall(len(message).to_bytes(8, "little") + message)
connection.recv(1)
"""
"""As little Python as possible, since it runs for each message."""


def run_warm(command: str, arguments: Sequence[str]) -> int:
    """Run one of Flower's commands that stay, and by forks all that it starts; returns how it ended.

    SIGTERM is passed on, and then an interruption, as Ctrl-C is: a service that is stopped has not failed.
    """
    loaded = {name: _loaded(name) for name in (command, *STARTED_BY[command])}
    import_module(APPS)
    if POLLING in sys.modules:
        vars(sys.modules[POLLING])["time"] = Pauses()
    with TemporaryDirectory() as place, listening(Path(place) / "socket") as listener:
        os.environ["PATH"] = os.pathsep.join([str(_commands(Path(place), STARTED_BY[command])), os.environ["PATH"]])
        main = _fork(loaded, command, arguments, _ask_to_end, listener)
        stopped = Event()

        def stop(*_: object) -> None:
            stopped.set()
            os.kill(main, signal.SIGTERM)

        before = signal.signal(signal.SIGTERM, stop)
        try:
            code = _wait(main, loaded, listener)
        finally:
            signal.signal(signal.SIGTERM, before)
    if stopped.is_set():
        raise KeyboardInterrupt
    return code


class Pauses:
    """Replaces the module `time`: long sleeps are cut short at first, and later less and less."""

    def __init__(self) -> None:
        self._long = 0

    def sleep(self, seconds: float) -> None:
        # Short pauses are made while a message is being answered: another may follow soon.
        self._long = self._long + 1 if seconds >= 1 else 0
        time.sleep(min(seconds, SOON * 2 ** max(0, min(self._long, 10) - 1)))

    def __getattr__(self, name: str) -> object:
        return getattr(time, name)


def _wait(main: int, loaded: Mapping[str, Callable[[], object]], listener: socket.socket) -> int:
    """Fork for each request, until the command itself has ended; end it when no app could be started any more."""
    listener.settimeout(LOOK)
    needed = set[int]()
    while True:
        with suppress(OSError, EOFError):
            connection, _ = listener.accept()
            with closing(connection):
                connection.settimeout(LOOK)
                name, *arguments = receive(connection).decode().split("\0")
                child = _fork(loaded, name, arguments, _end_at_once, connection, listener)
                if name == STARTS_APPS:
                    needed.add(child)
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == main:
                    return os.waitstatus_to_exitcode(ended[1])
                if ended[0] in needed and ended[1]:
                    # Flower does not notice: orders would come, and no process would answer them.
                    os.kill(main, signal.SIGTERM)


def _fork(
    loaded: Mapping[str, Callable[[], object]],
    name: str,
    arguments: Sequence[str],
    alone: Callable[[], None],
    *inherited: socket.socket,
) -> int:
    """A child that is the command, as if it had been started by itself; when this process has ended, it is `alone`."""
    parent = os.getpid()
    if child := os.fork():
        return child
    for each in inherited:
        each.close()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _be(partial(_watching, parent, alone, loaded[name]), [name, *arguments])


def _watching(parent: int, alone: Callable[[], None], command: Callable[[], object]) -> object:
    """Run a command that is of no use without the process that forks for it."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOK)
        alone()

    Thread(target=watch, daemon=True).start()
    return command()


def _ask_to_end() -> None:
    """A SuperNode disconnects from the SuperLink."""
    os.kill(os.getpid(), signal.SIGTERM)


def _end_at_once() -> None:
    """An app without its SuperLink has no connection to close; a process that waits for it notices at once."""
    os._exit(1)


def _be(command: Callable[[], object], arguments: list[str]) -> NoReturn:
    code: object = 1
    try:
        sys.argv = arguments
        code = command()
    except SystemExit as ended:
        code = ended.code
    except KeyboardInterrupt:
        # A command that stays ends its children by this signal: the traceback has no use.
        code = 128 + signal.SIGINT
    except BaseException:
        traceback.print_exc()
    finally:
        # Exit handlers are those of the parent, and must not run in a child.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def _commands(folder: Path, names: Sequence[str]) -> Path:
    """A folder of commands that hand over what they are asked."""
    made = folder / "commands"
    made.mkdir()
    for name in names:
        words = [sys.executable, "-IS", "-c", HAND_OVER, str(folder / "socket"), name]
        (made / name).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        (made / name).chmod(0o700)
    return made


def _loaded(name: str) -> Callable[[], object]:
    [found] = entry_points(group="console_scripts", name=name)
    loaded: Callable[[], object] = found.load()
    return loaded
