"""How does the server's process give orders to the app that brings them to sites? Over a Unix socket.

The app may end at any time, with the SuperLink or by itself. Then another one is started, and gets the orders that are
not answered yet: a site that is asked the same twice does the same twice.
"""

import json
import socket
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

from ..errors import PartitaError
from .wire import receive, send

PATIENCE = 60.0
"""Seconds in which an app that was started must be there."""
GRACE = 30.0
"""Seconds beyond the deadline after which a silent app counts as lost."""
PAUSE = 2.0
"""Seconds before another attempt to start an app."""
Keys = Callable[[], Mapping[str, str]]
"""Returns the fingerprint of each site's key, as it is now."""


class Carrier:
    """An `Exchange` with the sites of a plan."""

    def __init__(
        self,
        sites: Sequence[str],
        listener: socket.socket,
        start: Callable[[], None],
        *,
        keys: Keys | None = None,
        on_look: Callable[[list[str]], None] = lambda sites: None,
    ) -> None:
        """`start` has an app started, which then connects to the listener.

        A site is known by its key where `keys` returns fingerprints. It is called before each exchange, since sites
        are enrolled and revoked meanwhile. `on_look` is called with the connected sites.
        """
        self._sites, self._listener, self._start = sites, listener, start
        self._keys, self._on_look = keys, on_look
        self._connection: socket.socket | None = None
        self._served = False

    def __call__(
        self, orders: Mapping[int, bytes], seconds: float, absent: float | None = None
    ) -> Generator[tuple[int, bytes | PartitaError], None, None]:
        """`absent` are the seconds after which a site that is not there is given up, if earlier than others."""
        left, end = dict(orders), time.monotonic() + seconds
        while left and (rest := end - time.monotonic()) > 0:
            try:
                for number, reply in self._through(self._connected(), left, rest, min(rest, absent or rest)):
                    del left[number]
                    yield number, reply
                return
            except GeneratorExit:
                # Later replies are of no use.
                self.close()
                raise
            except (EOFError, OSError):
                self.close()
            except PartitaError:
                if not self._served:
                    raise
                time.sleep(min(PAUSE, max(0.0, end - time.monotonic())))

    def close(self) -> None:
        """Close the connection; the app then ends."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _connected(self) -> socket.socket:
        if self._connection is None:
            self._start()
            self._listener.settimeout(PATIENCE)
            try:
                self._connection, _ = self._listener.accept()
            except TimeoutError:
                raise PartitaError(
                    f"The SuperLink accepted the run, but its app did not connect within {PATIENCE:g} s. See the log "
                    "of the SuperLink: it must run on this machine, with partita[flower] installed."
                ) from None
            self._served = True
        return self._connection

    def _through(
        self, connection: socket.socket, orders: Mapping[int, bytes], seconds: float, absent: float
    ) -> Iterator[tuple[int, bytes | PartitaError]]:
        numbers = {self._sites[number]: number for number in orders}
        connection.settimeout(seconds + GRACE)
        header = {
            "seconds": seconds,
            "absent": absent,
            "sites": list(numbers),
            "keys": self._keys and dict(self._keys()),
        }
        send(connection, json.dumps(header).encode())
        for order in orders.values():
            send(connection, order)
        while said := json.loads(receive(connection)):
            if "online" in said:
                self._on_look(said["online"])
                continue
            reply, problem = receive(connection), said["problem"]
            yield numbers.pop(said["site"]), PartitaError(problem) if problem else reply
