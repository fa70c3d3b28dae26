"""The command that serves models."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from ..errors import PartitaError
from . import terminal
from .again import SERVER
from .options import Network, Trust, use_one_thread


def serve(
    paths: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Runs, exported models, or folders that hold them.")
    ],
    host: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="The address to listen on; by default, only this machine can connect."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535)] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file with a token that requests must carry. Clients can be onboarded only with a token.",
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Keep onboarded clients in this folder; a server started later with it has them too."
        ),
    ] = None,
    memory: Annotated[
        int,
        typer.Option(
            help="Megabytes of memory for personal parts; beyond that, the least recently used are dropped.", min=1
        ),
    ] = 512,
    rate: Annotated[
        float, typer.Option(help="The largest number of requests per second from one address; 0 is no limit.", min=0)
    ] = 1000.0,
    seconds: Annotated[float, typer.Option(help="The time limit of a request, in seconds.", min=0.1)] = 10.0,
    rows: Annotated[int, typer.Option(help="The largest number of inputs in a request.", min=1)] = 256,
    batch: Annotated[
        int, typer.Option(help="The largest number of inputs that go through the network together.", min=1)
    ] = 64,
    network: Network = None,
    trust: Trust = False,
) -> None:
    """Serve models over HTTP, with a page to try them. One process answers for all clients.

    Open the address that is printed to see the page; docs/serving.md lists the paths for programs. Ctrl-C answers the
    open requests, then stops.

    Examples:

    partita serve runs/fedper-digits-1

    partita serve runs/demo --port 8080

    partita serve models --host 0.0.0.0 --token-file token

    partita serve runs/fedper-digits-1 --token-file token --keep newcomers

    partita serve models --network mynet:Net
    """
    if missing := [name for name in SERVER if find_spec(name) is None]:
        raise PartitaError(f"Serving needs {', '.join(missing)}: pip install 'partita[serve]'")
    from ..web.catalogue import Catalogue, find_entries
    from ..web.limits import Limits
    from ..web.server import address, bind, is_loopback, read_token, serve as answer

    token = read_token(token_file) if token_file else None
    catalogue = Catalogue(find_entries(paths, trust=trust, keep=keep, network=network), memory << 20)
    catalogue.need_usable()
    bound = bind(host, port)
    if not token and not is_loopback(bound):
        terminal.tell(
            "Everyone who can reach this machine can ask the models. To limit this, give --token-file FILE.",
            "yellow",
            "Note",
        )
    if token and keep is None:
        terminal.tell(
            "Onboarded clients are lost when the server stops. To keep them, give --keep FOLDER.", "yellow", "Note"
        )
    use_one_thread()
    limits = Limits(rate=rate, seconds=seconds, rows=rows, batch=batch)
    page = address(bound)
    answer(catalogue, bound, limits, token, lambda: terminal.tell(f"Serving at {page} until Ctrl-C."))
    terminal.tell("Stopped.")
