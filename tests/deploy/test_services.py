"""What is wrong with certificates, keys and ports is told in one line, before anything is started."""

import importlib
import shlex
import shutil
import socket
import sqlite3
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Thread

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from partita.deploy.certificates import make_certificates, make_key, need_key
from partita.deploy.services import (
    AUTHORITY,
    CERTIFICATE,
    DATABASE,
    KEY,
    MESSAGES,
    SuperLinkService,
    SuperNodeService,
    forget_messages,
    free_port,
    need_certificate,
    need_trusted,
)
from partita.errors import PartitaError


@contextmanager
def listening_with(folder: Path) -> Iterator[int]:
    """A server with the certificate in a folder; gives its port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / CERTIFICATE, folder / KEY)
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with suppress(OSError), connection, context.wrap_socket(connection, server_side=True):
                        pass

        Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]


def made(folder: Path) -> Path:
    folder.mkdir()
    make_certificates(folder)
    return folder


def test_whose_certificate_it_is(tmp_path: Path) -> None:
    own, other = made(tmp_path / "own"), made(tmp_path / "other")
    with listening_with(own) as port:
        need_trusted(f"127.0.0.1:{port}", own / AUTHORITY)
        need_trusted(f"localhost:{port}", own / AUTHORITY)
        with pytest.raises(
            PartitaError, match=rf"certificate of the SuperLink at 127.0.0.1:{port} does not fit .* Ask its operator"
        ):
            need_trusted(f"127.0.0.1:{port}", other / AUTHORITY)
    # One that is not there yet may come.
    need_trusted(f"127.0.0.1:{free_port()}", own / AUTHORITY)


@pytest.mark.parametrize("address", ["fed.example.org", "8000", ":8000", "https://fed.example.org", ""])
def test_what_is_no_address(address: str, tmp_path: Path) -> None:
    with pytest.raises(PartitaError, match="is not the address of a SuperLink"):
        need_trusted(address, tmp_path)


def test_files_that_are_missing(tmp_path: Path) -> None:
    key, socket_ = tmp_path / "key", tmp_path / "socket"
    with pytest.raises(PartitaError, match=r"There is no file .*missing.crt. Ask the operator"):
        SuperNodeService("localhost:1", tmp_path / "missing.crt", key, socket_).run(tmp_path)
    made(tmp_path / "own")
    with pytest.raises(PartitaError, match=r"There is no file .*key. Make one with: ssh-keygen"):
        SuperNodeService("localhost:1", tmp_path / "own" / AUTHORITY, key, socket_).run(tmp_path)
    make_key(key)
    with pytest.raises(PartitaError, match="is not a certificate in PEM"):
        SuperNodeService("localhost:1", key, key, socket_).run(tmp_path)
    with pytest.raises(PartitaError, match=r"There is no file .*authority.crt. .* partita federate init"):
        SuperLinkService(tmp_path, "127.0.0.1", free_port()).run()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("name", "certificate is not valid for '127.0.0.2'"),
        ("authority", "certificate signature failure|unable to get local issuer certificate"),
        ("key", "KEY_VALUES_MISMATCH"),
        ("password", "SSLError"),
        ("text", "PEM"),
    ],
)
def test_a_certificate_of_which_flowers_processes_would_not_know_the_superlink(
    wrong: str, words: str, tmp_path: Path
) -> None:
    """The SuperLink would end at once, with a traceback of its process that starts apps."""
    own, other = made(tmp_path / "own"), made(tmp_path / "other")
    need_certificate(own, "127.0.0.1")
    need_certificate(own, "0.0.0.0")
    if wrong in ("authority", "key"):
        name = {"authority": AUTHORITY, "key": KEY}[wrong]
        (own / name).write_bytes((other / name).read_bytes())
    elif wrong == "password":
        secret = serialization.load_pem_private_key((own / KEY).read_bytes(), None)
        hidden = serialization.BestAvailableEncryption(b"secret")
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
        (own / KEY).write_bytes(secret.private_bytes(*form, hidden))
    elif wrong == "text":
        (own / CERTIFICATE).write_text("no certificate")
    host = "127.0.0.2" if wrong == "name" else "127.0.0.1"
    with pytest.raises(PartitaError, match=rf"The SuperLink cannot use .*superlink.crt \(.*({words}).*\)\. It must"):
        SuperLinkService(own, host, free_port()).run()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_certificates_of_the_documentation(tmp_path: Path) -> None:
    """The commands of the page make what the SuperLink, nginx and sites need."""
    page = Path(__file__).resolve().parents[2] / "docs" / "deployment.md"
    lines = page.read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    commands = [line for line in lines if line.startswith(("    openssl req", "    openssl x509"))]
    assert len(commands) == 3
    for command in commands:
        done = subprocess.run(shlex.split(command), cwd=tmp_path, capture_output=True, text=True)
        if "Unknown option" in done.stderr or "unknown option" in done.stderr:
            pytest.skip("this openssl is older than 3")
        assert done.returncode == 0, done.stderr
    for name in ("127.0.0.1", "localhost", "fed.example.org"):
        need_certificate(tmp_path, name)


@pytest.mark.parametrize("kind", ["text", "public", "rsa", "password", "folder"])
def test_what_is_no_key_of_a_site(kind: str, tmp_path: Path) -> None:
    key = tmp_path / "key"
    public = make_key(key)
    need_key(key)
    secret = serialization.load_ssh_private_key(key.read_bytes(), None)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    key.write_bytes(secret.private_bytes(*form, serialization.NoEncryption()))
    need_key(key)
    if kind == "folder":
        key = tmp_path
    elif kind == "public":
        key = public
    else:
        other = rsa.generate_private_key(65537, 2048)
        key.write_bytes(
            {
                "text": b"no key",
                "rsa": other.private_bytes(*form, serialization.NoEncryption()),
                "password": secret.private_bytes(*form, serialization.BestAvailableEncryption(b"secret")),
            }[kind]
        )
    with pytest.raises(PartitaError, match=r"is not the key of a site \(.+\)\. Make one with: ssh-keygen"):
        need_key(key)


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with listening_with(made(tmp_path / "own")) as port, pytest.raises(PartitaError, match="choose another port"):
        SuperLinkService(tmp_path / "own", "127.0.0.1", port).run()


def test_a_superlink_forgets_what_was_on_its_way(tmp_path: Path) -> None:
    """Sites stay enrolled. Where there are no such tables, or nothing at all, there is nothing to forget."""
    database = tmp_path / DATABASE
    forget_messages(database)
    assert not database.exists()
    with closing(sqlite3.connect(database)) as connection, connection:
        for table in ("node", *MESSAGES[1:]):
            connection.execute(f"CREATE TABLE {table} (id INTEGER)")
            connection.execute(f"INSERT INTO {table} VALUES (1)")
    forget_messages(database)
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT COUNT(*) FROM node").fetchone() == (1,)
        assert connection.execute(f"SELECT COUNT(*) FROM {MESSAGES[1]}").fetchone() == (0,)
    database.write_text("no database at all")
    forget_messages(database)


def test_flowers_tables_of_messages_have_these_names() -> None:
    """A version of Flower that calls them otherwise is noticed here."""
    models = importlib.import_module("flwr.supercore.state.schema.linkstate_models")
    tables = {each for base in vars(models).values() if hasattr(base, "metadata") for each in base.metadata.tables}
    assert tables >= {*MESSAGES}
