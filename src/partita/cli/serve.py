"""The command that serves models."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from ..errors import PartitaError
from . import terminal
from .again import SERVER
from .options import Trust, use_one_thread


def serve(
    paths: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Runs, exported models, or folders that hold them.")
    ],
    host: Annotated[str, typer.Option(help="Where to listen; by default this machine alone can ask.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 is any port that is free.", min=0, max=65535)] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(help="A file with a token that requests must carry. With a token, clients can be onboarded."),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(help="A folder for clients that are onboarded, so that they are there after the next start."),
    ] = None,
    memory: Annotated[
        int, typer.Option(help="Megabytes for personal parts; beyond, they are read again.", min=1)
    ] = 512,
    rate: Annotated[float, typer.Option(help="Requests per second of one address; 0 is no limit.", min=0)] = 1000.0,
    seconds: Annotated[float, typer.Option(help="Time for one request.", min=0.1)] = 10.0,
    rows: Annotated[int, typer.Option(help="Inputs in one request.", min=1)] = 256,
    batch: Annotated[int, typer.Option(help="Inputs that go through the network together.", min=1)] = 64,
    trust: Trust = False,
) -> None:
    """Serve models over HTTP, with a page to try them: one process for all clients, their shared part in memory once.

    The page is at the address that is printed; docs/serving.md has the paths. Ctrl-C answers what was asked, and stops.

    Examples:

    partita serve runs/fedper-digits-1

    partita serve runs/demo --port 8080

    partita serve models --host 0.0.0.0 --token-file token

    partita serve runs/fedper-digits-1 --token-file token --keep newcomers
    """
    if missing := [name for name in SERVER if find_spec(name) is None]:
        raise PartitaError(f"Serving needs {', '.join(missing)}: pip install 'partita[serve]'")
    from ..web.catalogue import Catalogue, find_entries
    from ..web.limits import Limits
    from ..web.server import address, bind, is_loopback, read_token, serve as answer

    token = read_token(token_file) if token_file else None
    catalogue = Catalogue(find_entries(paths, trust=trust, keep=keep), memory << 20)
    catalogue.need_usable()
    bound = bind(host, port)
    if not token and not is_loopback(bound):
        terminal.tell("Everyone who can reach this machine can ask: no --token-file is given.", "yellow", "Note")
    if token and keep is None:
        terminal.tell("Onboarded clients are gone when the server stops: no --keep is given.", "yellow", "Note")
    use_one_thread()
    limits = Limits(rate=rate, seconds=seconds, rows=rows, batch=batch)
    page = address(bound)
    answer(catalogue, bound, limits, token, lambda: terminal.tell(f"Serving at {page} until Ctrl-C."))
    terminal.tell("Stopped.")
