"""Which certificates and keys does a federation need? One of the SuperLink, for TLS, and a key of each site.

Those made here are for a trial: anyone who can read the folder can act as any host.
"""

import base64
import datetime
import hashlib
import ipaddress
import os
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ..errors import PartitaError
from .services import AUTHORITY, CERTIFICATE, KEY

DAYS = 30
"""The number of days for which certificates are valid."""


def make_certificates(folder: Path, host: str = "localhost") -> None:
    """An authority, whose own key is not kept, and the certificate of a SuperLink on this machine or another host."""
    secret = ec.generate_private_key(ec.SECP384R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Partita trial")])
    authority = (
        _builder(name, name, secret.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signing=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(secret.public_key()), critical=False)
        .sign(secret, hashes.SHA256())
    )
    key = ec.generate_private_key(ec.SECP384R1())
    names = [_name(each) for each in dict.fromkeys((host, "localhost", "127.0.0.1"))]
    certificate = (
        _builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)]), name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signing=False), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(secret.public_key()), critical=False)
        .sign(secret, hashes.SHA256())
    )
    _write(folder / AUTHORITY, authority.public_bytes(serialization.Encoding.PEM))
    _write(folder / CERTIFICATE, certificate.public_bytes(serialization.Encoding.PEM))
    _write(folder / KEY, _private(key, serialization.PrivateFormat.PKCS8))


def make_key(path: Path) -> Path:
    """A site's key; returns the file with its public half, beside it."""
    key = ec.generate_private_key(ec.SECP384R1())
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    _write(path, _private(key, serialization.PrivateFormat.OpenSSH))
    _write(path.with_suffix(".pub"), public)
    return path.with_suffix(".pub")


def need_key(path: Path) -> None:
    """Refuse a file that is not the private half of a site's key."""
    try:
        content = path.read_bytes()
        ssh = b"OPENSSH" in content
        key = (serialization.load_ssh_private_key if ssh else serialization.load_pem_private_key)(content, None)
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return
        reason = "of another kind"
    except OSError as problem:
        reason = str(problem.strerror)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        reason = "no private key, or one with a password"
    raise PartitaError(
        f"{path} is not the key of a site ({reason}). Make one with: ssh-keygen -t ecdsa -b 384 -N '' -f KEY"
    )


def fingerprint(public_key: bytes) -> str:
    """The fingerprint of a public key, in PEM or OpenSSH form; a site compares it with that of `ssh-keygen -l`."""
    ssh = public_key.startswith((b"ssh-", b"ecdsa-"))
    load = serialization.load_ssh_public_key if ssh else serialization.load_pem_public_key
    key = load(public_key)
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise ValueError("a key of another kind")
    line = key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    digest = hashlib.sha256(base64.b64decode(line.split()[1])).digest()
    return f"SHA256:{base64.b64encode(digest).decode().rstrip('=')}"


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=DAYS))
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signing: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signing,
        key_cert_sign=signing,
        crl_sign=signing,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _private(key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _write(path: Path, content: bytes) -> None:
    with open(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
        file.write(content)
