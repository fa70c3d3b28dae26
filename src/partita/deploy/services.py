"""Which of Flower's processes run permanently? A SuperLink at the server, and a SuperNode at each site."""

import os
import socket
import sqlite3
import ssl
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from ..errors import PartitaError, in_one_line
from ..extras import optional
from .superlink import environment
from .warm import run_warm

AUTHORITY, CERTIFICATE, KEY = "authority.crt", "superlink.crt", "superlink.key"
DATABASE = "link.db"
MESSAGES = ("message_ins", "message_res")
"""Flower's tables of orders and replies."""
PATIENCE = 10.0
"""Seconds in which a SuperLink that is there answers."""
HOST = "127.0.0.1"
"""The address at which only this machine can connect."""


@dataclass(frozen=True)
class SuperLinkService:
    """A SuperLink whose folder has its certificates and its database. Sites must show the keys that were enrolled."""

    folder: Path
    host: str
    port: int

    def run(self) -> int:
        """Run it until it ends; returns its exit code."""
        for name in (AUTHORITY, CERTIFICATE, KEY):
            _need_file(
                self.folder / name,
                "Make certificates for a trial with: partita federate init FOLDER --sites ... --trial",
            )
        need_certificate(self.folder, self.host)
        need_free(self.host, self.port)
        place = self.folder.absolute()
        forget_messages(place / DATABASE)
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
    """The certificate of the authority that signed the SuperLink's."""
    key: Path
    """The site's, whose public half was enrolled."""
    socket: Path
    """The socket at which the site's own process answers."""

    def run(self, home: Path) -> int:
        """Run it until it ends, with its files in `home`; returns its exit code."""
        _need_file(self.certificate, "Ask the operator of the federation for the authority's certificate.")
        _need_file(self.key, "Make one with: ssh-keygen -t ecdsa -b 384 -N '' -f KEY")
        optional("partita.deploy.certificates", "partita[flower]").need_key(self.key)
        need_trusted(self.superlink, self.certificate)
        arguments = [
            *("--superlink", self.superlink, "--root-certificates", str(self.certificate.absolute())),
            *("--auth-supernode-private-key", str(self.key.absolute())),
            *("--host", HOST, "--port", str(free_port())),
            *("--node-config", f"socket='{self.socket.absolute()}'"),
        ]
        return _run("flower-supernode", arguments, home)


def forget_messages(database: Path) -> None:
    """Delete the messages that were on their way when the last SuperLink ended; enrolled sites stay.

    The apps that it was to or from died with that SuperLink. A SuperNode that gets such an order waits a minute.
    """
    if not database.is_file():
        return
    with closing(sqlite3.connect(database)) as connection, connection:
        for table in MESSAGES:
            # Another version of Flower may have other tables.
            with suppress(sqlite3.DatabaseError):
                connection.execute(f"DELETE FROM {table}")


def free_port() -> int:
    """A port on which no process listens now."""
    with closing(socket.socket()) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def is_free(host: str, port: int) -> bool:
    """Whether no process listens on the port."""
    with closing(socket.socket()) as probe:
        return probe.connect_ex((host, port)) != 0


def need_free(host: str, port: int) -> None:
    if not is_free(host, port):
        raise PartitaError(f"Another process listens at {host}:{port}. End it, or choose another port: --port")


def need_certificate(folder: Path, host: str) -> None:
    """Refuse a certificate with which nobody on this machine would believe the SuperLink.

    Flower's own processes reach it at the address at which it listens, whatever its name is for others; without them
    it ends. A server and a client that have these files greet each other here, in memory.
    """
    host = {"0.0.0.0": HOST, "::": "::1"}.get(host, host)
    certificate, authority = folder / CERTIFICATE, folder / AUTHORITY
    try:
        shown, trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=authority)
        # Nobody is there to type the password of a key.
        shown.load_cert_chain(certificate, folder / KEY, password="")
        there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = trust.wrap_bio(back, there, server_hostname=host)
        server = shown.wrap_bio(there, back, server_side=True)
        with suppress(ssl.SSLWantReadError):
            client.do_handshake()
        with suppress(ssl.SSLWantReadError):
            server.do_handshake()
        client.do_handshake()
    except (ssl.SSLError, OSError) as problem:
        reason = getattr(problem, "verify_message", None) or in_one_line(problem)
        raise PartitaError(
            f"The SuperLink cannot use {certificate} ({reason.rstrip('.')}). It must be signed by {AUTHORITY}, hold "
            f"for {host} too, where Flower's own processes reach the SuperLink, and have its key in {KEY}, without a "
            "password. docs/deployment.md has the commands."
        ) from problem


def need_trusted(address: str, certificate: Path) -> None:
    """Refuse a SuperLink whose certificate another authority signed; one that is not there yet is no reason to end."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise PartitaError(
            f"{address!r} is not the address of a SuperLink. Give its host and port, as in fed.example.org:443"
        )
    try:
        trust = ssl.create_default_context(cafile=certificate)
    except (ssl.SSLError, OSError) as problem:
        raise PartitaError(
            f"{certificate} is not a certificate in PEM ({problem}). Get it from the operator of the federation."
        ) from problem
    try:
        with (
            socket.create_connection((host.strip("[]"), int(port)), PATIENCE) as plain,
            trust.wrap_socket(plain, server_hostname=host.strip("[]")),
        ):
            return
    except ssl.SSLCertVerificationError as problem:
        raise PartitaError(
            f"The certificate of the SuperLink at {address} does not fit that name and {certificate} "
            f"({problem.verify_message}). Ask its operator for the authority's certificate, and for the SuperLink's "
            "name."
        ) from problem
    except OSError:
        return


def _run(command: str, arguments: list[str], home: Path) -> int:
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Flower reads its settings when it is loaded.
    os.environ.update(environment(home.absolute()))
    optional("partita.deploy.flower", "partita[flower]")
    return run_warm(command, arguments)


def _need_file(path: Path, way_out: str) -> None:
    if not path.is_file():
        raise PartitaError(f"There is no file {path}. {way_out}")
