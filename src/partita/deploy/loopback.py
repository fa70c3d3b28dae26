"""How is a federation tried on one machine? With all its processes, over loopback, with TLS and a key for each site.

A folder holds what elsewhere is on several machines: `superlink` and `sites/NUMBER`, with the log of each process.
Sites that are started again in the same folder still have their personal parts.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ..extras import optional
from .gate import write_approvals
from .node import APPROVALS, SOCKET
from .plan import Plan
from .processes import Part, Tell, ending, started_again
from .services import AUTHORITY, DATABASE, HOST, free_port, is_free, need_free
from .superlink import SuperLink


@contextmanager
def loopback(
    plan: Plan, data: Mapping[str, object], folder: Path, port: int = 0, tell: Tell = lambda text: None
) -> Iterator[SuperLink]:
    """A SuperLink and all sites of a plan, each with its client of the data; they end with the block.

    A process that dies is started again, as systemd does elsewhere.
    """
    certificates = optional("partita.deploy.certificates", "partita[flower]")
    optional("partita.deploy.flower", "partita[flower]")
    # Processes work in folders of their own.
    folder = folder.absolute()
    home = folder / "superlink"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    port = port or free_port()
    need_free(HOST, port)
    certificates.make_certificates(home)
    # All that must last is in the run and at the sites.
    for old in home.glob(f"{DATABASE}*"):
        old.unlink()
    superlink = SuperLink(f"{HOST}:{port}", home / AUTHORITY)
    link = Part("The SuperLink", home, ["federate", "superlink", str(home), "--port", str(port)])
    sites = [
        Part(f"The site {name}", _site(plan, number, data, folder), ["node", "run", "node.toml"])
        for number, name in enumerate(plan.sites)
    ]

    def there() -> bool:
        return not is_free(HOST, port)

    nodes = [_node(superlink, name, site.folder, there) for name, site in zip(plan.sites, sites, strict=True)]
    parts = [link, *sites, *nodes]
    with ending(parts):
        for part in (link, *sites):
            part.start()
        link.wait(there)
        for site in sites:
            site.wait((site.folder / SOCKET).exists)
        with ThreadPoolExecutor() as pool:
            list(pool.map(Part.start, nodes))
        with started_again(parts, tell):
            yield superlink


@dataclass
class _Registered:
    """A site's key at the SuperLink, a new one at each start.

    The SuperLink refuses the key of a SuperNode that died: its connection counts as lost only after a minute.
    """

    superlink: SuperLink
    site: str
    key: Path
    _node: int | None = field(default=None, init=False)

    def renew(self) -> None:
        if self._node is not None:
            self.superlink.unregister(self._node)
            self._node = None
        make_key = optional("partita.deploy.certificates", "partita[flower]").make_key
        self._node = self.superlink.register(make_key(self.key), self.site)


def _node(superlink: SuperLink, name: str, site: Path, there: Callable[[], bool]) -> Part:
    """The SuperNode of a site, which needs a SuperLink that is there."""
    command = [
        *("node", "connect", "--superlink", superlink.address, "--certificate", str(superlink.certificate)),
        *("--key", str(site / "key"), "--socket", str(site / SOCKET)),
    ]
    registered = _Registered(superlink, name, site / "key")
    return Part(f"The SuperNode of {name}", site / "flower", command, registered.renew, there)


def _site(plan: Plan, number: int, data: Mapping[str, object], folder: Path) -> Path:
    """The folder of a site, with its file and its approval of the plan."""
    site = folder / "sites" / str(number)
    site.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = {"name": plan.sites[number], "client": plan.sites[number], "data": data}
    (site / "node.toml").write_text("".join(f"{key} = {_toml(value)}\n" for key, value in file.items()), "utf-8")
    write_approvals(site / APPROVALS, {plan.hash: "by partita federate up"})
    return site


def _toml(value: object) -> str:
    """A value as TOML has it in one line."""
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items() if each is not None)
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
