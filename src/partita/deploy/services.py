"""Which of Flower's processes stay? A SuperLink at the server, and a SuperNode at each site."""

import os
import socket
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ..errors import PartitaError
from ..extras import optional
from .superlink import environment
from .warm import run_warm

AUTHORITY, CERTIFICATE, KEY = "authority.crt", "superlink.crt", "superlink.key"
DATABASE = "link.db"
HOST = "127.0.0.1"
"""This machine alone."""


@dataclass(frozen=True)
class SuperLinkService:
    """A SuperLink whose folder has its certificates and its database. Sites must show the keys that were enrolled."""

    folder: Path
    host: str
    port: int

    def run(self) -> int:
        """Until it is ended; returns its exit code."""
        for name in (AUTHORITY, CERTIFICATE, KEY):
            _need_file(self.folder / name, "Make certificates for a trial with: partita federate init")
        place = self.folder.absolute()
        arguments = [
            *("--host", self.host, "--port", str(self.port), "--database", str(place / DATABASE)),
            *("--ssl-certfile", str(place / CERTIFICATE), "--ssl-keyfile", str(place / KEY)),
            *("--ssl-ca-certfile", str(place / AUTHORITY), "--enable-supernode-auth"),
            "--disable-runtime-dependency-installation",
        ]
        return _run("flower-superlink", arguments, self.folder)


@dataclass(frozen=True)
class SuperNodeService:
    """A SuperNode, which brings messages between a SuperLink and the site's own process."""

    superlink: str
    """Host and port."""
    certificate: Path
    """Of the authority that signed the SuperLink's."""
    key: Path
    """The site's, whose public half was enrolled."""
    socket: Path
    """At which the site's own process answers."""

    def run(self, home: Path) -> int:
        """Until it is ended, with its files in `home`; returns its exit code."""
        _need_file(self.certificate, "Ask the operator of the federation for the authority's certificate.")
        _need_file(self.key, "Make one with: ssh-keygen -t ecdsa -b 384 -N '' -f KEY")
        arguments = [
            *("--superlink", self.superlink, "--root-certificates", str(self.certificate.absolute())),
            *("--auth-supernode-private-key", str(self.key.absolute())),
            *("--host", HOST, "--port", str(free_port())),
            *("--node-config", f"socket='{self.socket.absolute()}'"),
        ]
        return _run("flower-supernode", arguments, home)


def free_port() -> int:
    """One that nobody listens at now."""
    with closing(socket.socket()) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _run(command: str, arguments: list[str], home: Path) -> int:
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Flower reads its settings when it is loaded.
    os.environ.update(environment(home.absolute()))
    optional("partita.deploy.flower", "partita[flower]")
    return run_warm(command, arguments)


def _need_file(path: Path, way_out: str) -> None:
    if not path.is_file():
        raise PartitaError(f"There is no file {path}. {way_out}")
