"""How many threads compute? One, wherever bits matter or tensors are small."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread: the number of threads affects the order of sums, and so the last bits of a result.

    Small tensors gain nothing from more, and on a busy machine each call waits for all of them.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
