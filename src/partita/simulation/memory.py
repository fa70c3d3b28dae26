"""How does a process get memory back quickly that it freed?"""

import ctypes
from contextlib import suppress

MMAP_THRESHOLD, TRIM_THRESHOLD, TOP_PAD = -3, -1, -2


def keep_freed_memory() -> None:
    """Freed memory stays with the process. Else every step of training asks for its pages anew.

    This cannot be undone, so it is for processes of our own. Only glibc knows these settings; with another library
    nothing happens.
    """
    with suppress(OSError, TypeError, AttributeError):
        change = ctypes.CDLL(None).mallopt
        change(MMAP_THRESHOLD, 1 << 30)
        change(TRIM_THRESHOLD, (1 << 31) - 1)
        change(TOP_PAD, 64 << 20)
