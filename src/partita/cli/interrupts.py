"""What does Ctrl-C do? It interrupts the command; where the exception would be lost, it ends the process."""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130
"""The exit code, as shells know it."""
SHOW_CURSOR = b"\x1b[?25h"
"""Bars of progress hide it."""


def end() -> NoReturn:
    """End this process at once. Commits are safe, and workers end with it."""
    if os.isatty(2):
        os.write(2, SHOW_CURSOR)
    os.write(2, b"Interrupted.\n")
    os._exit(INTERRUPTED)


def interrupt(_: int, frame: FrameType | None) -> None:
    """The handler of SIGINT and SIGTERM.

    A KeyboardInterrupt inside an import leaves half a module behind, and compiled code may swallow the exception: the
    command would go on and fail later with an unrelated error. So the process ends instead.
    """
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            end()
        frame = frame.f_back
    raise KeyboardInterrupt


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
