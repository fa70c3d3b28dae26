"""What is at a site? Its own file says: its name, data and folder, and what its gate insists on."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..data.federation import Federation
from ..errors import PartitaError
from ..experiment.settings.settings import build, federation_of
from ..parsing import parse_toml
from .audit import AuditLog
from .gate import Contract, Gate, Leaving, Policy
from .personal import PersonalStore
from .site import Site, one_client

LOG, APPROVALS, SOCKET = "audit.log", "approvals.json", "socket"


@dataclass(frozen=True)
class NodeSettings:
    """The file of a site, without its data."""

    name: str
    """The name of the site in plans."""
    folder: str = "."
    """Where it keeps everything, seen from the file."""
    key: str | None = None
    """A file with the key of the personal store."""
    socket: str | None = None
    """Where the site listens, seen from the file; by default in its folder."""
    group: str | None = None
    """The users that may hand messages to the site beside its own, such as that of the SuperNode."""
    client: str | None = None
    """Which client of the data the site is, where they hold several."""
    policy: Policy = Policy()
    leaving: Leaving = Leaving()
    contract: Contract = Contract()


@dataclass(frozen=True)
class Node:
    """A site's file, read. Data are loaded when the site is opened."""

    settings: NodeSettings
    data: object
    place: Path
    """The folder of the file."""

    @classmethod
    def read(cls, path: Path) -> "Node":
        try:
            found: dict[str, Any] = parse_toml(path.read_text(encoding="utf-8-sig"))
        except OSError as problem:
            raise PartitaError(f"Cannot read {path}: {problem.strerror}.") from problem
        except ValueError as problem:
            raise PartitaError(f"{path} is not valid TOML: {problem}.") from problem
        data = found.pop("data", None)
        if data is None:
            raise PartitaError(f"{path} does not name the site's data. Add a table [data] with the name of a source.")
        return cls(build(NodeSettings, found, "the node"), data, path.parent)

    @property
    def folder(self) -> Path:
        return self.place / self.settings.folder

    @property
    def log(self) -> Path:
        return self.folder / LOG

    @property
    def socket(self) -> Path:
        return self.place / self.settings.socket if self.settings.socket else self.folder / SOCKET

    def store(self, *, write: bool = True) -> PersonalStore:
        """The personal store. One process at a time can have it open to write."""
        key = self.settings.key
        return PersonalStore(self.folder, self.place / key if key else None, write=write)

    @property
    def gate(self) -> Gate:
        given = self.settings
        return Gate(given.policy, given.leaving, given.contract, self.folder / APPROVALS)

    def load(self) -> Federation:
        """The data of this site alone."""
        data, client = federation_of(self.data, "data"), self.settings.client
        if client is None and len(data) != 1:
            raise PartitaError(f"{data.name} has {len(data)} clients. Name the client of this site: client = 'NAME'.")
        return one_client(data, 0 if client is None else data.client(client))

    @contextmanager
    def open(self) -> Iterator[Site]:
        """The site, ready to answer. One process at a time can have it open."""
        data = self.load()
        with self.store() as store, closing(AuditLog(self.log)) as log:
            yield Site(self.settings.name, data, store, self.gate, log)
