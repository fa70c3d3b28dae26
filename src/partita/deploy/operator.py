"""What does the operator of a federation keep? A folder: where the SuperLink is, and which key each site has.

`federation.toml` is written by hand or by `partita federate init`; `sites.json` is kept by enrolling sites. A name that
an outsider registered at the SuperLink, with a key that was not enrolled here, is no site of the federation.
"""

import datetime
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from ..errors import PartitaError, in_one_line, unknown
from ..extras import optional
from .superlink import SuperLink

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FEDERATION, SITES = "federation.toml", "sites.json"


@dataclass(frozen=True)
class Enrolled:
    """A site that may take part."""

    node: int
    """Flower's number for it."""
    key: str
    """The fingerprint of its key."""
    since: str


@dataclass(frozen=True)
class Operator:
    """The operator's folder."""

    folder: Path

    @property
    def superlink(self) -> SuperLink:
        path = self.folder / FEDERATION
        try:
            found = tomllib.loads(path.read_text(encoding="utf-8"))
            address, certificate = str(found["superlink"]), str(found["certificate"])
        except FileNotFoundError:
            raise PartitaError(
                f"{self.folder} is not the folder of a federation: it has no {FEDERATION}. Make one with: "
                "partita federate init"
            ) from None
        except (OSError, ValueError, KeyError) as problem:
            raise PartitaError(
                f"{path} must say superlink = 'HOST:PORT' and certificate = 'FILE' ({in_one_line(problem)})."
            ) from problem
        return SuperLink(address, self.folder / certificate)

    @property
    def sites(self) -> dict[str, Enrolled]:
        path = self.folder / SITES
        try:
            return {name: Enrolled(**each) for name, each in json.loads(path.read_text(encoding="utf-8")).items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as problem:
            raise PartitaError(f"Cannot read the enrolled sites in {path}: {problem}.") from problem

    @property
    def keys(self) -> dict[str, str]:
        """The fingerprint of the key of each site."""
        return {name: each.key for name, each in self.sites.items()}

    def enrol(self, site: str, public_key: Path) -> Enrolled:
        """Add a site with its key."""
        if site in self.sites:
            raise PartitaError(f"{site} is enrolled. For another key: partita federate rotate {site} {public_key}")
        return self._register(site, public_key, self.sites)

    def revoke(self, site: str) -> None:
        """Remove a site. Its earlier updates stay in the model."""
        sites = self.sites
        self.superlink.unregister(self._known(site, sites).node)
        del sites[site]
        self._write(sites)

    def rotate(self, site: str, public_key: Path) -> Enrolled:
        """Replace a site's key; the old key is no longer accepted."""
        sites = self.sites
        if self._known(site, sites).key == fingerprint_of(public_key):
            raise PartitaError(f"{site} has this key already. Make a new key, and give its public half.")
        self.revoke(site)
        return self._register(site, public_key, self.sites)

    def need_enrolled(self, names: tuple[str, ...]) -> None:
        if missing := [name for name in names if name not in self.sites]:
            raise PartitaError(
                f"Not enrolled: {', '.join(missing)}. Ask for their public keys, and: "
                f"partita federate enrol {missing[0]} KEY.pub --federation {self.folder}"
            )

    def _register(self, site: str, public_key: Path, sites: dict[str, Enrolled]) -> Enrolled:
        key = fingerprint_of(public_key)
        if taken := [name for name, each in sites.items() if each.key == key]:
            raise PartitaError(f"{public_key} is the key of {taken[0]}. Every site needs its own key.")
        now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        made = Enrolled(self.superlink.register(public_key, site), key, now)
        self._write({**sites, site: made})
        return made

    def _known(self, site: str, sites: Mapping[str, Enrolled]) -> Enrolled:
        if site not in sites:
            raise PartitaError(unknown("site", site, list(sites)))
        return sites[site]

    def _write(self, sites: Mapping[str, Enrolled]) -> None:
        new = self.folder / f"{SITES}.new"
        with open(new, "w", encoding="utf-8") as file:
            json.dump({name: asdict(each) for name, each in sites.items()}, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.folder / SITES)


def fingerprint_of(public_key: Path) -> str:
    """The fingerprint of the public key in a file, as OpenSSH writes it."""
    certificates = optional("partita.deploy.certificates", "partita[flower]")
    try:
        found: str = certificates.fingerprint(public_key.read_bytes())
    except OSError as problem:
        raise PartitaError(f"Cannot read {public_key}: {problem.strerror}.") from problem
    except ValueError as problem:
        raise PartitaError(
            f"{public_key} holds no public key of a site. A site makes one with: ssh-keygen -t ecdsa -b 384 -N '' -f "
            "KEY, and sends KEY.pub."
        ) from problem
    return found
