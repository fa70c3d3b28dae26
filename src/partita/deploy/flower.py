"""How do orders get to sites on other machines? Over Flower: two apps that bring messages, and understand none.

The server's app runs beside the SuperLink. It is given orders by the server's process over a Unix socket (`carrier.py`)
and leaves each to the SuperNode of its site, which is known by the name that its key was registered under. The
client's app hands an order to the site's own process over the site's socket. Neither loads torch or keeps anything,
and a run that Flower starts holds no code: it names these two.
"""

import json
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from socket import socket

from flwr.app import Array, ArrayRecord, Context, Error, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from ..errors import PartitaError
from .wire import ask, connected, receive, send

BODY = "message"
PAUSE = 0.2
"""Seconds between two looks for replies."""
NOBODY = 0
"""The code of an error: there is no site behind a SuperNode."""

client = ClientApp()
server = ServerApp()


@client.query()
def hand_over(message: Message, context: Context) -> Message:
    """Bring an order to the site on this machine, and its reply back."""
    try:
        reply = ask(Path(str(context.node_config["socket"])), body_of(message))
    except (KeyError, PartitaError):
        # The reason names places of the site's machine, which are no one else's concern.
        return Message(Error(NOBODY, "the site's process does not run (partita node run)"), reply_to=message)
    return Message(content_of(reply), reply_to=message)


@server.main()
def carry(grid: Grid, context: Context) -> None:
    """Bring orders to sites until the server's process has no more of them, or is gone."""
    place = Path(str(context.run_config["socket"]))
    with suppress(BrokenPipeError, ConnectionResetError), closing(connected(place)) as connection:
        while asked := _asked(connection):
            orders, seconds = asked
            for site, reply in exchanged(grid, orders, seconds):
                problem = reply.error.reason if reply.has_error() else None
                send(connection, json.dumps({"site": site, "problem": problem}).encode())
                send(connection, b"" if reply.has_error() else body_of(reply))
            send(connection, b"{}")


def exchanged(grid: Grid, orders: dict[str, bytes], seconds: float) -> Iterator[tuple[str, Message]]:
    """The replies to orders, as they come; a site that is not connected gets its order when it is."""
    waiting, asked = dict(orders), dict[str, str]()
    end = time.monotonic() + seconds
    while (waiting or asked) and (left := end - time.monotonic()) > 0:
        nodes = {node.name: node.node_id for node in grid.get_nodes()} if waiting else {}
        if ready := sorted(waiting.keys() & nodes.keys()):
            messages = [
                Message(content_of(waiting.pop(site)), nodes[site], MessageType.QUERY, ttl=left) for site in ready
            ]
            asked.update(zip(grid.push_messages(messages), ready, strict=True))
        for reply in grid.pull_messages(list(asked)) if asked else ():
            # An error may come from the SuperLink: what it is about is known by the order alone.
            if site := asked.pop(reply.metadata.reply_to_message_id, None):
                yield site, reply
        time.sleep(PAUSE)


def content_of(message: bytes) -> RecordDict:
    """A message as Flower carries it: as one array of bytes, which may be of any size."""
    return RecordDict({BODY: ArrayRecord({BODY: Array("bytes", (len(message),), "partita", message)})})


def body_of(message: Message) -> bytes:
    return bytes(message.content.array_records[BODY][BODY].data)


def _asked(connection: socket) -> tuple[dict[str, bytes], float] | None:
    """Orders by site, and in how many seconds they are to be answered; None when there is nothing more to do."""
    try:
        header = json.loads(receive(connection))
        return {site: receive(connection) for site in header["sites"]}, header["seconds"]
    except (EOFError, OSError):
        return None
