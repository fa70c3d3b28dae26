"""The operator's folder: what is written for hosts, and which sites are enrolled with which keys."""

import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_ssh_private_key
from typer.testing import CliRunner

from partita.cli.main import app
from partita.deploy.certificates import fingerprint, make_key
from partita.deploy.node import Node
from partita.deploy.operator import Operator, fingerprint_of
from partita.deploy.superlink import SuperLink
from partita.errors import PartitaError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "hospitals"
    command = ["federate", "init", str(place), "--sites", "anna, ben", "--host", "fed.example.org", "--trial"]
    assert CliRunner().invoke(app, command).exit_code == 0
    return place


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, object]]:
    """What a SuperLink would have been asked."""
    asked: list[tuple[str, object]] = []

    def register(self: SuperLink, public_key: Path, site: str) -> int:
        asked.append(("register", site))
        return len(asked)

    monkeypatch.setattr(SuperLink, "register", register)
    monkeypatch.setattr(SuperLink, "unregister", lambda self, node: asked.append(("unregister", node)))
    return asked


def test_what_hosts_need(folder: Path) -> None:
    link = Operator(folder).superlink
    assert link.address == "127.0.0.1:8000"
    certificate = x509.load_pem_x509_certificate((folder / "superlink" / "superlink.crt").read_bytes())
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(link.certificate.read_bytes()))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["fed.example.org", "localhost"]
    proxy = (folder / "superlink" / "nginx.conf").read_text(encoding="utf-8")
    assert "location /v1/fleet/" in proxy
    assert "location / { return 404; }" in proxy
    for site in ("anna", "ben"):
        place = folder / "sites" / site
        assert stat.S_IMODE((place / "key").stat().st_mode) == 0o600
        assert Node.read(place / "node.toml").settings.name == site
        load_ssh_private_key((place / "key").read_bytes(), None)
        for service in place.glob("*.service"):
            lines = service.read_text(encoding="utf-8").splitlines()
            assert {"Restart=always", "RestartSec=15", "SuccessExitStatus=130", "KillMode=control-group"} <= set(lines)
    users = {
        path.name: next(line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("User="))
        for path in (folder / "sites" / "anna").glob("*.service")
    }
    assert users == {"partita-node.service": "User=partita-node", "partita-connect.service": "User=partita-link"}


def test_services_start_commands_that_exist(folder: Path) -> None:
    for service in folder.rglob("*.service"):
        [start] = [line for line in service.read_text(encoding="utf-8").splitlines() if line.startswith("ExecStart=")]
        words = start.split()[1:]
        options = {word for word in words if word.startswith("--")}
        shown = CliRunner().invoke(app, [*words[:2], "--help"], terminal_width=200)
        assert shown.exit_code == 0
        assert all(option in shown.output for option in options), start


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_finds_nothing_wrong_with_services(folder: Path) -> None:
    services = list(folder.rglob("*.service"))
    assert len(services) == 6
    for service in services:
        text = service.read_text(encoding="utf-8")
        service.write_text(text.replace("/opt/partita/bin/partita", "/bin/true"), encoding="utf-8")
        done = subprocess.run(["systemd-analyze", "verify", str(service)], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), service


def test_what_hosts_are_told_of_certificates(tmp_path: Path) -> None:
    """Every file that a command of a site's README takes is in its folder, or is said to come."""
    command = ["federate", "init", str(tmp_path), "--sites", "anna", "--host", "fed.example.org"]
    assert CliRunner().invoke(app, command).exit_code == 0
    operator, site = ((tmp_path / each / "README.md").read_text(encoding="utf-8") for each in (".", "sites/anna"))
    assert "must hold for fed.example.org, localhost and 127.0.0.1" in operator
    assert "Every site needs authority.crt" in operator
    assert "authority.crt is from the operator. Make the site's key: ssh-keygen" in site


def test_without_a_trial_no_key_is_made(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["federate", "init", str(tmp_path), "--sites", "anna"]).exit_code == 0
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".key", ".crt", ".pub") or path.name == "key"]


@pytest.mark.parametrize(
    ("sites", "words"), [("a,a", "a name of its own"), ("a,../b", "cannot be the name"), ("", "cannot be the name")]
)
def test_names_of_sites(sites: str, words: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["federate", "init", str(tmp_path / "new"), "--sites", sites])
    assert words in str(result.exception)
    assert not (tmp_path / "new").exists()


def test_a_folder_is_not_overwritten(folder: Path) -> None:
    result = CliRunner().invoke(app, ["federate", "init", str(folder), "--sites", "x"])
    assert "already is the folder of a federation" in str(result.exception)


def test_enrol_rotate_revoke(folder: Path, registered: list[tuple[str, object]]) -> None:
    operator, anna, ben = Operator(folder), folder / "sites/anna/key.pub", folder / "sites/ben/key.pub"
    operator.enrol("anna", anna)
    assert operator.keys == {"anna": fingerprint_of(anna)}
    with pytest.raises(PartitaError, match="is the key of anna"):
        operator.enrol("ben", anna)
    with pytest.raises(PartitaError, match="partita federate rotate anna"):
        operator.enrol("anna", ben)
    with pytest.raises(PartitaError, match="has this key already"):
        operator.rotate("anna", anna)
    operator.rotate("anna", new := make_key(folder / "new"))
    assert operator.keys == {"anna": fingerprint_of(new)}
    with pytest.raises(PartitaError, match=r"Not enrolled: ben\. .* partita federate enrol ben KEY\.pub"):
        operator.need_enrolled(("anna", "ben"))
    operator.revoke("anna")
    assert operator.keys == {}
    with pytest.raises(PartitaError, match="Unknown site 'anna'"):
        operator.revoke("anna")
    assert registered == [("register", "anna"), ("unregister", 1), ("register", "anna"), ("unregister", 3)]


def test_keys_are_told_apart_by_their_fingerprints(tmp_path: Path) -> None:
    """As Flower keeps them, and as OpenSSH writes them."""
    public = make_key(tmp_path / "key")
    as_pem = subprocess.run(
        ["ssh-keygen", "-e", "-m", "PKCS8", "-f", str(public)], capture_output=True, check=False
    ).stdout
    if as_pem:
        assert fingerprint(as_pem) == fingerprint_of(public)
    shown = subprocess.run(["ssh-keygen", "-l", "-f", str(public)], capture_output=True, check=False, text=True).stdout
    assert not shown or shown.split()[1] == fingerprint_of(public), "what a site sees of its key"
    assert fingerprint_of(make_key(tmp_path / "other")) != fingerprint_of(public)


def test_a_key_of_another_kind(folder: Path, registered: list[tuple[str, object]]) -> None:
    """Flower takes elliptic curves alone, and says so in half a page."""
    public = rsa.generate_private_key(65537, 2048).public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    (folder / "rsa.pub").write_bytes(public)
    with pytest.raises(PartitaError, match=r"holds no public key of a site\. A site makes one with"):
        Operator(folder).enrol("anna", folder / "rsa.pub")
    assert registered == []


@pytest.mark.parametrize("text", ["", "ssh-rsa nonsense", "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----"])
def test_what_is_no_key(text: str, tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_text(text, encoding="utf-8")
    with pytest.raises(PartitaError, match="holds no public key"):
        fingerprint_of(tmp_path / "key.pub")
    with pytest.raises(PartitaError, match="Cannot read"):
        fingerprint_of(tmp_path / "missing.pub")


@pytest.mark.parametrize(("file", "text"), [("federation.toml", "superlink = 1"), ("sites.json", "[1]")])
def test_a_folder_that_is_damaged(file: str, text: str, folder: Path) -> None:
    (folder / file).write_text(text, encoding="utf-8")
    with pytest.raises(PartitaError, match=file):
        _ = Operator(folder).superlink, Operator(folder).sites
