"""How is Flower's SuperLink asked to do something? With Flower's own commands, in an environment of their own."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..errors import PartitaError
from ..extras import optional

UNKNOWN_NODE = "Node ID not found"
"""What Flower says of a site that the SuperLink does not have."""
USED_KEY = "Public key already in use"
"""What Flower says where another site has the key."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
"""Flower writes them also where nobody sees them."""
PATIENCE = 120.0
"""Seconds that a command may take."""
APP = """
[project]
name = "partita"
version = "{version}"
[tool.flwr.app]
publisher = "partita"
[tool.flwr.app.components]
serverapp = "partita.deploy.flower:server"
clientapp = "partita.deploy.flower:client"
[tool.flwr.app.config]
socket = ""
"""
"""What travels in the place of an app: the names of two that are installed everywhere."""


def program(name: str) -> str:
    """The path of one of Flower's commands, that beside this interpreter first."""
    optional("partita.deploy.flower", "partita[flower]")
    found = shutil.which(name, path=_path())
    if found is None:
        raise PartitaError(f"Flower's command {name} is not on the path. Install it: pip install 'partita[flower]'")
    return found


def environment(home: Path) -> dict[str, str]:
    """The environment of Flower's processes: no telemetry, no installations, and Flower's files in `home`."""
    return {
        **os.environ,
        "PATH": _path(),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
    }


@dataclass(frozen=True)
class SuperLink:
    """Where a SuperLink is, and the certificate that its own must be signed with."""

    address: str
    """Host and port."""
    certificate: Path

    def __post_init__(self) -> None:
        if not self.certificate.is_file():
            raise PartitaError(
                f"There is no certificate {self.certificate}. Give that of the authority which signed the SuperLink's."
            )

    def start_app(self, socket: Path) -> None:
        """Have the app started that brings orders from a socket of this machine to sites."""
        with TemporaryDirectory() as place:
            (Path(place) / "pyproject.toml").write_text(APP.format(version=version("partita")), encoding="utf-8")
            self._ask("run", place, "partita", "-c", f"socket='{socket}'")

    def register(self, public_key: Path, site: str) -> int:
        """Register a site under its name, with the public key in a file; returns Flower's number for it."""
        try:
            return int(self._ask("supernode", "register", str(public_key), "partita", "--name", site)["node-id"])
        except PartitaError as problem:
            if USED_KEY not in str(problem):
                raise
            raise PartitaError(
                f"The SuperLink at {self.address} has the key {public_key} already. If {site} is not enrolled with it, "
                "an earlier enrolment was interrupted. Ask the site for a new key, and enrol that one."
            ) from problem

    def unregister(self, node: int) -> None:
        """Remove a site, by Flower's number for it. A SuperLink that lost its database does not know it."""
        self._ask("supernode", "unregister", str(node), "partita", done_if=UNKNOWN_NODE)

    def _ask(self, *arguments: str, done_if: str | None = None) -> Mapping[str, Any]:
        """What one of Flower's commands answers; nothing if it fails because what is asked is done already."""
        with TemporaryDirectory() as home:
            named = {"address": self.address, "root-certificates": str(self.certificate.absolute())}
            lines = ['[superlink]\ndefault = "partita"\n[superlink.partita]']
            lines += [f"{key} = {json.dumps(value)}" for key, value in named.items()]
            (Path(home) / "config.toml").write_text("\n".join(lines), encoding="utf-8")
            try:
                done = subprocess.run(
                    [program("flwr"), *arguments, "--format", "json"],
                    env=environment(Path(home)),
                    capture_output=True,
                    text=True,
                    timeout=PATIENCE,
                )
            except subprocess.TimeoutExpired:
                raise PartitaError(
                    f"The SuperLink at {self.address} does not answer. See its log, and try again."
                ) from None
        answer = _json(done.stdout)
        if answer is None or not answer.get("success"):
            said = done.stdout + done.stderr
            if done_if is not None and done_if in said:
                return {}
            if "SuperLink is unavailable" in said:
                raise PartitaError(
                    f"The SuperLink at {self.address} cannot be reached, or its certificate was not signed by that of "
                    f"{self.certificate}. Start it with: partita federate superlink FOLDER"
                )
            reason = (answer or {}).get("error-message") or COLOURS.sub("", done.stderr or done.stdout).strip()[-500:]
            raise PartitaError(f"The SuperLink at {self.address} did not do what was asked: {' '.join(reason.split())}")
        return answer


def _path() -> str:
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])


def _json(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text[text.index("{") :])
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
