"""When must Ctrl-C wait? While processes are started, and while they are ended."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

KINDS = signal.SIGINT, signal.SIGTERM


@contextmanager
def signals_held_back() -> Iterator[None]:
    """SIGINT and SIGTERM arrive afterwards. A process that is started within begins without them.

    Windows has no such thing; there they arrive at once.
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
    """A second Ctrl-C has no effect. Only the main thread can see to that, and only it is interrupted."""
    handlers = {kind: signal.getsignal(kind) for kind in KINDS}
    if threading.current_thread() is not threading.main_thread() or None in handlers.values():
        # A handler that is not Python's could not be put back.
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
    """Ctrl-C reaches all processes of a terminal; the parent ends its workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, KINDS)
