"""How does a process reuse freed memory quickly? It does not return it to the system."""

import ctypes
from contextlib import suppress

MMAP_THRESHOLD, TRIM_THRESHOLD, TOP_PAD = -3, -1, -2


def keep_freed_memory() -> None:
    """Keep freed memory in this process, so that a training step need not request its pages again.

    This cannot be undone, so it is only called in worker processes. It has an effect with glibc only.
    """
    with suppress(OSError, TypeError, AttributeError):
        change = ctypes.CDLL(None).mallopt
        change(MMAP_THRESHOLD, 1 << 30)
        change(TRIM_THRESHOLD, (1 << 31) - 1)
        change(TOP_PAD, 64 << 20)
