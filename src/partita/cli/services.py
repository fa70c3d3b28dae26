"""Commands that stay: Flower's SuperLink at the server, and its SuperNode at a site."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import PartitaError


def superlink(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="With the certificates; the database goes there.")],
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 8000,
) -> None:
    """Run Flower's SuperLink, through which sites and the server exchange messages, until it is ended.

    It listens on this machine alone, for a reverse proxy that lets sites reach /v1/fleet/ and nothing else.

    Example: partita federate superlink hospitals/superlink
    """
    from ..deploy.services import SuperLinkService

    _end(SuperLinkService(folder, host, port).run(), "The SuperLink has ended")


def connect(
    superlink: Annotated[str, typer.Option(help="Host and port of the SuperLink.")],
    certificate: Annotated[Path, typer.Option(help="Of the authority that signed the SuperLink's certificate.")],
    key: Annotated[Path, typer.Option(help="The site's key; its public half was enrolled.")],
    socket: Annotated[Path, typer.Option(help="At which the site's process answers (partita node run).")],
    home: Annotated[Path, typer.Option(help="A folder for Flower's files.")] = Path("flower"),
) -> None:
    """Connect a site with a SuperLink by Flower's SuperNode, until it is ended.

    It holds neither data nor personal parts, and can run under another user than the site.

    Example: partita node connect --superlink fed.example:443 --certificate authority.crt --key key --socket site/socket
    """
    from ..deploy.services import SuperNodeService

    way_out = "If it was refused, let the operator enrol the key, or try again in a minute: partita federate enrol"
    _end(SuperNodeService(superlink, certificate, key, socket).run(home), f"The SuperNode has ended. {way_out}")


def _end(code: int, words: str) -> None:
    if code > 0:
        raise PartitaError(f"{words} (code {code}; the reason is in the lines before this one).")
