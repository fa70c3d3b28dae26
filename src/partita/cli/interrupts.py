"""What does Ctrl-C do? It interrupts the command; where the exception would be lost, it ends the process."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130
"""The exit code, as shells know it."""
SAID = "Interrupted."
SHOW_CURSOR = b"\x1b[?25h"
"""Bars of progress hide it."""


def continued_by(command: str) -> str:
    """The line about a run that was interrupted."""
    return f"{SAID} Finished rounds are kept. Continue with: {command}"


def end(said: str = SAID) -> NoReturn:
    """End this process at once. Commits are safe, and workers end with it."""
    if os.isatty(2):
        os.write(2, SHOW_CURSOR)
    os.write(2, f"{said}\n".encode())
    os._exit(INTERRUPTED)


def interrupt(_: int, frame: FrameType | None, said: str = SAID) -> None:
    """The handler of SIGINT and SIGTERM.

    A KeyboardInterrupt inside an import leaves half a module behind, and compiled code may swallow the exception: the
    command would go on and fail later with an unrelated error. So the process ends instead.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            end(said)
        frame = frame.f_back
    raise KeyboardInterrupt


@contextmanager
def interrupted_once(command: str) -> Iterator[None]:
    """Ctrl-C and SIGTERM interrupt the block. Further signals do not disturb it while it ends what it has started.

    `command` continues what is interrupted.
    """

    def interrupt_once(number: int, frame: FrameType | None) -> None:
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        interrupt(number, frame, continued_by(command))

    found = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    # A command in the background ignores Ctrl-C from the start.
    before = {each: handler for each, handler in found.items() if handler is not signal.SIG_IGN}
    for each in before:
        signal.signal(each, interrupt_once)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def unraisable(lost: "sys.UnraisableHookArgs") -> None:
    """Python drops an exception in a finalizer or a callback of C; an interruption must not be lost there."""
    if issubclass(lost.exc_type, KeyboardInterrupt):
        end()
    sys.__unraisablehook__(lost)


def handle_interrupts() -> None:
    """Install the handler, unless the process was started with SIGINT ignored, as in the background."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
        sys.unraisablehook = unraisable
