"""How does the command end? At once, after all exit handlers."""

import atexit
import os
import sys


class Ending:
    """Ends this process without unloading modules, which takes a tenth of a second for torch.

    The exit handler that is registered first is called last, so this is made before anything else is imported.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        """The exit code. While it is not known, as after an unexpected error, Python ends as usual."""
        atexit.register(self._end)

    def _end(self) -> None:
        if self.code is None:
            return
        try:
            for stream in (sys.stdout, sys.stderr):
                if stream and not stream.closed:
                    stream.flush()
        except OSError:
            # Python tries again, reports the error, and has an exit code for it.
            return
        os._exit(self.code)
