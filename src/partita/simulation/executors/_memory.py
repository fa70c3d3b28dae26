"""How does memory that was freed come back quickly?"""

import ctypes

MMAP_THRESHOLD, TRIM_THRESHOLD, TOP_PAD = -3, -1, -2


def keep_freed_memory() -> None:
    """Freed memory stays with the process. Else every step of training asks for its pages anew.

    Only glibc knows these settings; with another library nothing happens.
    """
    change = getattr(ctypes.CDLL(None), "mallopt", None)
    if change is not None:
        change(MMAP_THRESHOLD, 1 << 30)
        change(TRIM_THRESHOLD, (1 << 31) - 1)
        change(TOP_PAD, 64 << 20)
