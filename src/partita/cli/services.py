"""Commands that run services: Flower's SuperLink at the server, and its SuperNode at a site."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import PartitaError
from . import terminal


def superlink(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of the certificates and the database.")],
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on.", min=1, max=65535)] = 8000,
) -> None:
    """Run Flower's SuperLink until it is interrupted. Sites and the server exchange messages through it.

    It listens on this machine only. A reverse proxy must forward /v1/fleet/ to it, and nothing else.

    Example: partita federate superlink hospitals/superlink
    """
    from ..deploy.services import SuperLinkService

    _end(SuperLinkService(folder, host, port).run(), "The SuperLink has ended")


def connect(
    superlink: Annotated[str, typer.Option(metavar="HOST:PORT", help="The address of the SuperLink.")],
    certificate: Annotated[
        Path, typer.Option(metavar="FILE", help="The certificate of the authority that signed the SuperLink's.")
    ],
    key: Annotated[Path, typer.Option(metavar="FILE", help="The site's private key, whose public half is enrolled.")],
    socket: Annotated[Path, typer.Option(metavar="FILE", help="The socket of the site's process (partita node run).")],
    home: Annotated[Path, typer.Option(metavar="FOLDER", help="A folder for Flower's files.")] = Path("flower"),
) -> None:
    """Run Flower's SuperNode until it is interrupted. It connects a site with the SuperLink.

    It holds neither data nor personal parts. Run it as another user than the site.

    Example: partita node connect --superlink fed.example:443 --certificate authority.crt --key key --socket site/socket
    """
    from ..deploy.services import SuperNodeService

    way_out = "If it was refused, let the operator enrol its key (partita federate enrol), or try again in a minute."
    _end(SuperNodeService(superlink, certificate, key, socket).run(home), "The SuperNode has ended", way_out)


def _end(code: int, words: str, way_out: str = "") -> None:
    """Flower ends with 0 also where it was refused after it had been connected."""
    if code:
        raise PartitaError(f"{words} with code {code}; the reason is in the lines before this one. {way_out}".strip())
    terminal.tell(f"{words}. {way_out}".strip())
