"""Commands of the operator of a federation: its folder, its sites and its status."""

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import PartitaError
from . import terminal
from .federate import Federation
from .options import AsJson

if TYPE_CHECKING:
    from ..deploy.status import Exchange, Status

Site = Annotated[str, typer.Argument(metavar="SITE", help="The site's name in plans.")]
PublicKey = Annotated[Path, typer.Argument(metavar="KEY.pub", help="The site's public key.")]
PAUSE = 2.0
"""Seconds between two readings of the status."""


def init(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder for the operator and all sites.")],
    sites: Annotated[
        str, typer.Option(metavar="NAMES", help="The sites, separated by commas, as in --sites anna,ben,cleo")
    ],
    host: Annotated[
        str, typer.Option(metavar="NAME", help="The host name under which sites reach the server.")
    ] = "localhost",
    public_port: Annotated[int, typer.Option(help="The port at which sites reach the server.", min=1, max=65535)] = 443,
    port: Annotated[int, typer.Option(help="The SuperLink's port on the server itself.", min=1, max=65535)] = 8000,
    trial: Annotated[bool, typer.Option("--trial", help="Also make certificates and keys, for a trial only.")] = False,
) -> None:
    """Write the files of all hosts of a federation: settings, services and a reverse proxy's configuration.

    Example: partita federate init hospitals --sites anna,ben,cleo --host fed.example.org --trial
    """
    from ..deploy.hosts import write_hosts

    names = [name.strip() for name in sites.split(",")]
    write_hosts(folder, names, host, port, public_port, trial=trial)
    terminal.tell(f"{folder} has the operator's files, and sites/NAME those of each site. Begin with its README.md.")


def enrol(site: Site, key: PublicKey, federation: Federation = Path()) -> None:
    """Add a site to the federation, with the public key that it sent.

    Example: partita federate enrol anna anna.pub --federation hospitals
    """
    from ..deploy.operator import Operator

    found = Operator(federation).enrol(site, key)
    terminal.tell(f"{site} is enrolled. Ask the site to compare {found.key} with: ssh-keygen -l -f KEY.pub")


def revoke(site: Site, federation: Federation = Path()) -> None:
    """Remove a site from the federation. Runs continue without it; its earlier updates stay in the model.

    Example: partita federate revoke anna --federation hospitals
    """
    from ..deploy.operator import Operator

    Operator(federation).revoke(site)
    terminal.tell(f"{site} is no longer enrolled.")


def rotate(site: Site, key: PublicKey, federation: Federation = Path()) -> None:
    """Replace a site's key. The old key is no longer accepted.

    Example: partita federate rotate anna anna-2.pub --federation hospitals
    """
    from ..deploy.operator import Operator

    found = Operator(federation).rotate(site, key)
    terminal.tell(f"{site} has a new key. Ask the site to compare {found.key} with: ssh-keygen -l -f KEY.pub")


def status(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of the federation's run.")],
    web: Annotated[bool, typer.Option("--web", help="Serve a local web page that updates itself.")] = False,
    port: Annotated[int, typer.Option(help="The port of the page; 0 takes a free one.", min=0, max=65535)] = 8090,
    follow: Annotated[bool, typer.Option("--follow", help="Print the status again after each change.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the status of a federation: its sites, rounds, late sites, refusals and bytes.

    Examples:

    partita federate status runs/ours

    partita federate status runs/ours --web
    """
    from ..deploy.status import status_of

    found = status_of(run)
    if web:
        _serve(run, port)
        return
    _print(found, as_json)
    try:
        while follow and found.state not in ("done", "stopped"):
            time.sleep(PAUSE)
            before, found = found, status_of(run)
            if (before.now, before.round, before.refused) != (found.now, found.round, found.refused):
                _print(found, as_json)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _print(found: "Status", as_json: bool) -> None:
    if as_json:
        print(json.dumps(found.as_dict()))
        return
    at = f"round {found.round} of {found.rounds}"
    doing = f"; {_words(found.now)} since {_clock(found.now.since)}" if found.now else ""
    terminal.say((found.label, "bold"), f": {found.state}, {at}{doing}")
    rows = terminal.columns("site", "connected", "last seen", "answers", "left out", "received", "sent", "score", "")
    for site in found.sites:
        connected = "?" if site.connected is None else "yes" if site.connected else "no"
        now = "late" if site.late else "asked" if site.asked_since else site.problem
        rows.add_row(
            site.name,
            connected,
            _clock(site.last_seen),
            str(site.answers),
            str(site.left_out),
            _size(site.received),
            _size(site.sent),
            "-" if site.score is None else terminal.score(site.score, found.metric),
            now,
        )
    rows.columns[-1].justify = "left"
    terminal.output.print(rows)
    for each in found.refusals[:10]:
        terminal.say(f"{_clock(each.time)} round {each.round}, {each.site}: {each.reason}")
    if found.refused > 10:
        terminal.say(f"... and {found.refused - 10} more")


def _words(now: "Exchange") -> str:
    if now.kind == "introduce":
        return "introductions"
    return f"{'evaluation' if now.kind == 'evaluate' else 'training'} of round {now.round}"


def _clock(time: str | None) -> str:
    """Date and time to the second."""
    return time[:19].replace("T", " ") if time else "never"


def _size(count: int) -> str:
    return f"{count / 1e6:,.2f} MB"


def _serve(run: Path, port: int) -> None:
    from importlib.util import find_spec

    if missing := [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]:
        raise PartitaError(f"The page needs {', '.join(missing)}: pip install 'partita[serve]'")
    from ..web.operator import serve_status
    from ..web.server import address, bind

    bound = bind("127.0.0.1", port)
    page = address(bound)
    serve_status(run, bound, lambda: terminal.tell(f"The federation is at {page} until Ctrl-C."))
    terminal.tell("Stopped.")
