"""How do orders get to sites on other machines? Over Flower: two apps carry messages and do not read them.

The server's app runs beside the SuperLink. It is given orders by the server's process over a Unix socket (`carrier.py`)
and leaves each to the SuperNode of its site, which is known by the name that its key was registered under. The
client's app hands an order to the site's own process over the site's socket. Neither loads torch or keeps anything,
and a run that Flower starts holds no code: it names these two.
"""

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from threading import Thread

from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from ..errors import PartitaError
from .certificates import fingerprint
from .wire import ask, connected, receive, send

BODY = "message"
WHOLE = 1 << 20
"""Bytes up to which a message travels as one record. Of a larger one Flower sends parts; each is a request more."""
PAUSE = 0.1
"""Seconds between two looks for replies, for each that is awaited."""
LOOK = 0.5
"""Seconds between two looks for sites that are connected."""
AGAIN = 5.0
"""Seconds after which an order is brought again to a SuperNode behind which there was no site."""
NOBODY = 0
"""The code of an error: there is no site behind a SuperNode."""
LASTING = (1, 2, 6, 7)
"""Codes of Flower's errors that would come again: the app cannot be loaded, or it failed."""

client = ClientApp()
server = ServerApp()


@client.query()
def hand_over(message: Message, context: Context) -> Message:
    """Bring an order to the site on this machine, and its reply back."""
    try:
        reply = ask(Path(str(context.node_config["socket"])), body_of(message))
    except (KeyError, PartitaError):
        # The reason names paths of the site's machine, which stay there.
        return Message(Error(NOBODY, "the site's process does not run (partita node run)"), reply_to=message)
    return Message(content_of(reply), reply_to=message)


@server.main()
def carry(grid: Grid, context: Context) -> None:
    """Carry orders to sites until the server's process has no more orders or has ended."""
    place = Path(str(context.run_config["socket"]))
    with suppress(BrokenPipeError, ConnectionResetError), closing(connected(place)) as connection:
        while asked := _asked(connection):
            for site, reply in exchanged(grid, asked, lambda sites: _tell(connection, online=sorted(sites))):
                body, problem = _body_or_problem(reply)
                _tell(connection, site=site, problem=problem)
                send(connection, body)
            _tell(connection)


@dataclass(frozen=True)
class Asked:
    """Orders by site, and how long to wait."""

    orders: Mapping[str, bytes]
    seconds: float
    """The seconds in which sites must answer."""
    absent: float
    """Seconds after which a site that is not there is given up."""
    keys: Mapping[str, str] | None = None
    """Fingerprints of the sites' keys, where they are known: a name alone is not believed then."""


@dataclass
class Awaited:
    """A site whose reply is awaited."""

    order: bytes
    connection: str = ""
    """The start of the connection of the SuperNode to which the order was sent last."""
    missing: float | None = None
    """The time since which no SuperNode of the site is connected."""
    again: float | None = None
    """The time at which to send the order again."""

    def is_given_up(self, now: float, absent: float) -> bool:
        self.missing = now if self.missing is None else self.missing
        return now - self.missing >= absent


def exchanged(
    grid: Grid, asked: Asked, on_look: Callable[[Collection[str]], None]
) -> Iterator[tuple[str, Message | str]]:
    """The replies to orders, as they come, or why there is none.

    A site that is not connected gets its order when it is, and again when its SuperNode was restarted: what was on
    its way is lost then. A site that is asked the same twice does the same twice.
    """
    awaited = {site: Awaited(order) for site, order in asked.orders.items()}
    for site in awaited.keys() - (awaited if asked.keys is None else asked.keys).keys():
        del awaited[site]
        yield site, "the site is not enrolled"
    messages: dict[str, str] = {}
    pulls: dict[str, Future[list[Message]]] = {}
    look, end = 0.0, time.monotonic() + asked.seconds
    while awaited and (now := time.monotonic()) < end:
        if now >= look:
            look = now + LOOK
            nodes = {node.name: node for node in grid.get_nodes() if _is_known(node.name, node.public_key, asked.keys)}
            on_look(nodes.keys() & asked.orders.keys())
            for site in sorted(awaited.keys() & nodes.keys()):
                one, connection = awaited[site], nodes[site].last_activated_at
                if connection != one.connection:
                    one.connection, one.missing, one.again = connection, None, now
                if one.again is not None and now >= one.again:
                    one.again = None
                    order = Message(content_of(one.order), nodes[site].node_id, MessageType.QUERY, ttl=end - now)
                    messages.update(dict.fromkeys(grid.push_messages([order]), site))
            for site in sorted(awaited.keys() - nodes.keys()):
                if awaited[site].is_given_up(now, asked.absent):
                    del awaited[site]
                    yield site, "the site is not connected"
        messages = {message: site for message, site in messages.items() if site in awaited}
        pulls = {message: pulls.get(message) or _pulling(grid, message) for message in messages}
        wait(pulls.values(), LOOK)
        for message in [each for each, pull in pulls.items() if pull.done()]:
            # An error may come from the SuperLink: what it is about is known by the order alone.
            site = messages[message]
            replies = pulls.pop(message).result()
            if not replies or site not in awaited:
                continue
            del messages[message]
            [reply] = replies
            if not reply.has_error():
                del awaited[site]
                yield site, reply
            elif reply.error.code in LASTING or awaited[site].is_given_up(now, asked.absent):
                del awaited[site]
                yield site, str(reply.error.reason)
            else:
                awaited[site].again = now + AGAIN
        time.sleep(PAUSE * max(1, len(messages)))


def _pulling(grid: Grid, message: str) -> "Future[list[Message]]":
    """The reply to one message, if it is there.

    Flower waits for minutes for a reply whose SuperNode died while it sent it; replies of others must not wait too.
    """
    found: Future[list[Message]] = Future()

    def pull() -> None:
        try:
            found.set_result(list(grid.pull_messages([message])))
        except Exception as problem:
            found.set_exception(problem)

    Thread(target=pull, daemon=True).start()
    return found


def _is_known(site: str, public_key: bytes, keys: Mapping[str, str] | None) -> bool:
    return keys is None or keys.get(site) == fingerprint(public_key)


def content_of(message: bytes) -> RecordDict:
    """A message as Flower carries it: as a setting where it is small, else as an array, which may be of any size."""
    if len(message) <= WHOLE:
        return RecordDict({BODY: ConfigRecord({BODY: message})})
    return RecordDict({BODY: ArrayRecord({BODY: Array("bytes", (len(message),), "partita", message)})})


def body_of(message: Message) -> bytes:
    """The body that `content_of` was given. A holder of a site's key can send anything else."""
    found = message.content.get(BODY)
    body = found.get(BODY) if isinstance(found, ArrayRecord | ConfigRecord) else None
    if isinstance(body, Array):
        return bytes(body.data)
    if not isinstance(body, bytes):
        raise PartitaError("it is not a message of Partita")
    return body


def _body_or_problem(reply: Message | str) -> tuple[bytes, str | None]:
    if isinstance(reply, str):
        return b"", reply
    try:
        return body_of(reply), None
    except PartitaError as problem:
        return b"", f"the reply cannot be read: {problem}"


def _asked(connection: socket) -> Asked | None:
    """The next request of the server's process; None when there are no more."""
    try:
        header = json.loads(receive(connection))
        orders = {site: receive(connection) for site in header["sites"]}
        return Asked(orders, header["seconds"], header["absent"], header["keys"])
    except (EOFError, OSError):
        return None


def _tell(connection: socket, **facts: object) -> None:
    """Send facts to the server's process; a call without facts says that no more come."""
    send(connection, json.dumps(facts).encode())
