"""When are SIGINT and SIGTERM delayed or ignored? While worker processes start and end."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

KINDS = signal.SIGINT, signal.SIGTERM


@contextmanager
def signals_held_back() -> Iterator[None]:
    """Delay SIGINT and SIGTERM until the context ends. A process that is started inside starts with them blocked.

    Windows cannot block signals; there they arrive at once.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, KINDS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def signals_ignored() -> Iterator[None]:
    """Ignore SIGINT and SIGTERM. Only the main thread can set handlers, and only it is interrupted."""
    handlers = {kind: signal.getsignal(kind) for kind in KINDS}
    if threading.current_thread() is not threading.main_thread() or None in handlers.values():
        # A handler that was not set from Python cannot be restored.
        yield
        return
    try:
        for kind in KINDS:
            signal.signal(kind, signal.SIG_IGN)
        yield
    finally:
        for kind, handler in handlers.items():
            signal.signal(kind, handler)


def as_worker() -> None:
    """Ignore Ctrl-C in a worker: it reaches all processes of a terminal, and the parent ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, KINDS)
